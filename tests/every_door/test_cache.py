"""The response cache through every door: what is answered from it, what is not, and that nobody gets another's answer.

The model counts its executions in an output, so an answer from the cache shows the count of the one before it.
"""

import itertools
import json
import threading
from textwrap import dedent

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

from charonia.api import Server
from charonia.core.errors import InvalidArgumentError
from tests.every_door.doors import DOORS, RefusedError
from tests.every_door.served import ask, value_of
from tests.models import onnx_models
from tests.models.plus import PLUS, write_plus
from tests.models.repository import write_config, write_python_model

CACHE = {"local": {"size": str(1 << 20)}}
OPTIONS = {"cache_config": CACHE}
INLINE = 'parameters { key: "execution" value { string_value: "inline" } }'
CACHED = "response_cache { enable: true }"
COUNTED = """
    import json
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def initialize(self, args):
            self.count = 0

        def execute(self, requests):
            return [self.answer(request) for request in requests]

        def answer(self, request):
            self.count += 1
            array = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            if json.loads(request.parameters()).get("fail"):
                return pb_utils.InferenceResponse(error=pb_utils.TritonError(f"failed at {self.count}"))
            count = np.full((len(array), 1), self.count, np.int32)
            outputs = [pb_utils.Tensor("OUT", array * 2), pb_utils.Tensor("COUNT", count)]
            array[:] = 0  # an inline model may write to its inputs
            return pb_utils.InferenceResponse(outputs)
"""
COUNTED_CONFIG = """
    max_batch_size: 4
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
    output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "COUNT" data_type: TYPE_INT32 dims: [ 1 ] } ]
"""
WORDS = """
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        count = 0

        def execute(self, requests):
            TritonPythonModel.count += len(requests)
            arrays = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
            told = f" {TritonPythonModel.count}".encode()
            arrays = [np.array([[each + told for each in row] for row in array], np.object_) for array in arrays]
            return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)]) for array in arrays]
"""
CALLER = """
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            return [self.answer(request) for request in requests]

        def answer(self, request):
            inputs = [pb_utils.get_input_tensor_by_name(request, "IN")]
            names = ["OUT", "COUNT"]
            inner = pb_utils.InferenceRequest(model_name="counted", requested_output_names=names, inputs=inputs)
            response = inner.exec()
            if response.has_error():
                return pb_utils.InferenceResponse(error=response.error())
            found = {tensor.name(): tensor.as_numpy() for tensor in response.output_tensors()}
            kept = found["OUT"].copy()
            found["OUT"][:] = -1  # its own copy, whatever happens to it
            return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", kept), pb_utils.Tensor("COUNT", found["COUNT"])])
"""
STEPS = """
    platform: "ensemble"
    max_batch_size: 4
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
    output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "COUNT" data_type: TYPE_INT32 dims: [ 1 ] } ]
    ensemble_scheduling {
      step {
        model_name: "%s" input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "middle" }
      }
      step {
        model_name: "%s" input_map { key: "IN" value: "middle" }
        output_map { key: "OUT" value: "OUT" } output_map { key: "COUNT" value: "COUNT" }
      }
    }
"""
PLAIN_DOORS = ("http-json", "http-binary", "grpc", "in-process")  # those that ask for outputs only as they are told
FRESH = itertools.count(1)


def lay_out(repository):
    write_python_model(repository, "counted", COUNTED_CONFIG + INLINE + CACHED, COUNTED)
    write_python_model(repository, "process", COUNTED_CONFIG + CACHED, COUNTED)
    write_python_model(repository, "plain", COUNTED_CONFIG + INLINE, COUNTED)
    words = 'max_batch_size: 4 input [ { name: "IN" data_type: TYPE_STRING dims: [ -1 ] } ]'
    words += 'output [ { name: "OUT" data_type: TYPE_STRING dims: [ -1 ] } ]'
    write_python_model(repository, "words", words + INLINE + CACHED, WORDS)
    for form, more in (("inline", INLINE), ("isolated", "")):
        write_python_model(repository, f"caller_{form}", COUNTED_CONFIG + more, CALLER)
    for name, steps, more in (
        ("whole", ("plain", "plain"), CACHED),
        ("by_steps", ("counted", "counted"), ""),
        ("both", ("counted", "counted"), CACHED),
        ("outer", ("by_steps", "by_steps"), CACHED),
    ):
        (write_config(repository, name, STEPS % steps + more) / "1").mkdir(exist_ok=True)
    folder = onnx_models.save(onnx_models.mlp(), repository, "onnx")
    del folder
    write_config(repository, "onnx", f"max_batch_size: 8 dynamic_batching {{ }} {CACHED}")


def fresh(*shape):
    """Inputs that nobody has asked with before."""
    return {"IN": np.full(shape or (1, 2), next(FRESH), np.float32)}


def counted(answer):
    return answer["COUNT"].ravel()[0].item()


MODELS = ("counted", "process", "whole", "by_steps", "both", "outer", "caller_inline", "caller_isolated")


@pytest.mark.parametrize("model", MODELS)
def test_the_same_answer_comes_again_with_the_new_id(door, model):
    inputs = fresh()
    answers = [door.infer(model, inputs, id=f"id {number}") for number in range(3)]
    assert [answer.id for answer in answers] == ["id 0", "id 1", "id 2"]
    assert len({counted(answer) for answer in answers}) == 1
    factor = {"counted": 2, "process": 2, "outer": 16}.get(model, 2 if "caller" in model else 4)
    for answer in answers:
        np.testing.assert_array_equal(answer["OUT"], inputs["IN"] * factor)
        assert list(answer.outputs) == ["OUT", "COUNT"]


DIFFERENT = {
    "other values": ({"IN": np.array([[5.0, 5.0]], np.float32)}, {}),
    "another shape": ({"IN": np.array([[1.5], [1.5]], np.float32)}, {}),
    "a parameter": (None, {"parameters": {"p": 1}}),
    "another parameter": (None, {"parameters": {"p": 2}}),
    "one output": (None, {"outputs": ["COUNT"]}),
}


@pytest.mark.parametrize("case", DIFFERENT)
def test_what_differs_is_executed(server, case):
    inputs, options = DIFFERENT[case]
    first = {"IN": np.array([[1.5, 1.5]], np.float32)}
    for name in DOORS:
        shown = counted(ask(name, server, "counted", first))
        assert counted(ask(name, server, "counted", inputs or first, **options)) != shown


def test_what_does_not_reach_the_model_makes_no_difference(server):
    inputs = fresh()
    options = [{}, {"id": "x"}, {"priority": 3}, {"timeout_us": 10_000_000}]
    counts = {counted(ask(name, server, "counted", inputs, **more)) for name in PLAIN_DOORS for more in options}
    assert len(counts) == 1


def test_the_order_of_requested_outputs_makes_no_difference(door):
    inputs = fresh()
    first = door.infer("counted", inputs, outputs=["OUT", "COUNT"])
    second = door.infer("counted", inputs, outputs=["COUNT", "OUT"])
    assert counted(first) == counted(second)
    assert list(first.outputs) == list(second.outputs)


def test_an_output_alone_and_all_of_them(door):
    inputs = fresh()
    for _ in range(2):
        assert list(door.infer("counted", inputs, outputs=["COUNT"]).outputs) == ["COUNT"]
        assert list(door.infer("counted", inputs).outputs) == ["OUT", "COUNT"]


@pytest.mark.parametrize("model", ["counted", "process"])
def test_errors_are_not_kept(door, model):
    inputs = fresh()
    messages = set()
    for _ in range(2):
        with pytest.raises(RefusedError) as raised:
            door.infer(model, inputs, parameters={"fail": True})
        messages.add(str(raised.value))
    assert len(messages) == 2


def test_a_wrong_request_is_refused_as_ever(door):
    with pytest.raises(RefusedError) as raised:
        door.infer("counted", {"IN": np.zeros((5, 1), np.float32)})
    assert raised.value.code == "INVALID_ARGUMENT"


def test_strings(door):
    number = next(FRESH)
    inputs = {"IN": np.array([[f"a{number}".encode(), b"b"]], np.object_)}
    other = {"IN": np.array([[f"a{number}b".encode(), b""]], np.object_)}
    first = door.infer("words", inputs)["OUT"].tolist()
    assert door.infer("words", inputs)["OUT"].tolist() == first
    assert door.infer("words", other)["OUT"].tolist() != first


def test_a_batch_of_many_clients_is_kept_row_by_row(server, clients):
    """What was executed together with others is found again alone."""
    rows = [np.random.default_rng(number).random((1, 256), np.float32) for number in range(16)]
    first = list(clients.map(lambda row: ask("grpc", server, "onnx", {"input": row}), rows))
    before = server.model("onnx").statistics().inference["cache_hit"].count
    for row, answer in zip(rows, first, strict=True):
        again = ask("http-binary", server, "onnx", {"input": row})
        np.testing.assert_array_equal(again["output"], answer["output"])
    assert server.model("onnx").statistics().inference["cache_hit"].count == before + len(rows)


@pytest.mark.parametrize("kind", ["http", "grpc"])
def test_classification_is_of_each_request(server, kind):
    module = {"http": httpclient, "grpc": grpcclient}[kind]
    array = np.random.default_rng(99).random((1, 256), np.float32)
    with module.InferenceServerClient(f"127.0.0.1:{server.ports[kind]}") as client:
        tensor = module.InferInput("input", array.shape, "FP32").set_data_from_numpy(array)
        shapes = [
            client.infer("onnx", [tensor], outputs=[module.InferRequestedOutput("output", class_count=count)])
            .as_numpy("output")
            .shape
            for count in (1, 3, 0)
        ]
    assert shapes[:2] == [(1, 1), (1, 3)]
    assert len(shapes[2]) == 2


def test_concurrent_equal_requests_are_all_right(server, clients):
    inputs = fresh()
    answers = list(
        clients.map(lambda number: ask(PLAIN_DOORS[number % 4], server, "process", inputs, id=str(number)), range(32))
    )
    for number, answer in enumerate(answers):
        np.testing.assert_array_equal(answer["OUT"], inputs["IN"] * 2)
        assert answer.id == str(number)


def test_concurrent_different_requests_never_mix(server, clients):
    def one(number):
        value = number % 7
        answer = ask(
            PLAIN_DOORS[number % 4], server, ("counted", "both")[number % 2], {"IN": np.full((1, 3), value, np.float32)}
        )
        return value * (2, 4)[number % 2], set(answer["OUT"].ravel().tolist())

    for wanted, found in clients.map(one, range(200)):
        assert found == {wanted}


def test_statistics_and_metrics(server):
    model = server.model("counted")
    before = model.statistics()
    inputs = fresh()
    for _ in range(3):
        model.infer(inputs)
    after = model.statistics()

    def grown(name):
        return after.inference[name].count - before.inference[name].count

    assert [grown(name) for name in ("success", "queue", "compute_infer", "cache_hit", "cache_miss", "fail")] == [
        3,
        3,
        1,
        2,
        1,
        0,
    ]
    assert (after.inference_count - before.inference_count, after.execution_count - before.execution_count) == (1, 1)
    assert after.inference["cache_hit"].ns > before.inference["cache_hit"].ns


def test_an_ensemble_that_is_cached_asks_no_step(server):
    inputs = fresh()
    steps = server.model("plain")
    server.model("whole").infer(inputs)
    before = steps.statistics().inference["success"].count
    server.model("whole").infer(inputs)
    assert steps.statistics().inference["success"].count == before
    assert server.model("whole").statistics().inference["cache_hit"].count >= 1


ORDERED = """
    max_batch_size: 1
    dynamic_batching { preserve_ordering: true }
    instance_group [ { count: 2 } ]
    response_cache { enable: true }
"""


def test_preserved_order_holds_for_answers_from_the_cache(gated):
    served = gated(ORDERED, doors=(2,), cache_config=CACHE)
    served.gate.open()
    assert value_of(served.send(1)) == 1  # an answer is kept before it is given
    served.gate.next_entered()
    slow = served.occupy(2)
    known = served.send(1)
    assert served.model.statistics().inference["cache_hit"].count == 1
    assert not known.done()
    answered = []
    slow.add_done_callback(lambda _: answered.append(2))
    known.add_done_callback(lambda _: answered.append(1))
    served.gate.open(door=2)
    assert (value_of(slow), value_of(known)) == (2, 1)
    assert answered == [2, 1]


def test_a_full_queue_refuses_no_answer_from_the_cache(gated):
    config = "max_batch_size: 1 dynamic_batching { default_queue_policy { max_queue_size: 1 } } " + CACHED
    served = gated(config, doors=(1,), cache_config=CACHE)
    served.gate.open(door=1)
    assert value_of(served.send(1)) == 1
    served.gate.next_entered()
    busy, waiting = served.occupy(2), served.send(3)
    assert served.send(4).exception(20) is not None
    assert value_of(served.send(1)) == 1
    served.gate.open(2)
    assert (value_of(busy), value_of(waiting)) == (2, 3)


def test_what_was_cancelled_is_not_kept_and_what_was_executed_is(gated):
    served = gated("max_batch_size: 1 dynamic_batching { } " + CACHED, cache_config=CACHE)
    executing = served.occupy(1)
    waiting = served.send(2)
    assert waiting.cancel()
    assert executing.cancel()
    served.gate.open()
    served.occupy(3)  # the instance has done with the first one when it begins the next
    assert value_of(served.send(1)) == 1
    waiting = served.send(2)
    served.gate.open(2)
    assert value_of(waiting) == 2
    found = served.model.statistics().inference
    assert (found["cache_hit"].count, found["cache_miss"].count) == (1, 3)


PLUS_CONFIG = """
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
    output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""
ONCE = (
    PLUS_CONFIG
    + """
    platform: "ensemble"
    response_cache { enable: true }
    ensemble_scheduling {
      step { model_name: "m" input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" } }
    }
"""
)


@pytest.fixture
def explicit(tmp_path):
    write_plus(tmp_path, PLUS_CONFIG + INLINE + CACHED, 1)
    (write_config(tmp_path, "e", ONCE) / "1").mkdir()
    ports = {"http_port": 0, "grpc_port": 0, "metrics_port": 0}
    with Server(tmp_path, model_control_mode="explicit", load_model=["*"], cache_config=CACHE, **ports) as server:
        yield tmp_path, server


def asked(server, model):
    return {
        ask(name, server, model, {"IN": np.array([1], np.float32)})["OUT"].item() for name in DOORS for _ in range(2)
    }


def test_a_model_that_has_changed_does_not_answer_from_before(explicit):
    """Nor does an ensemble of it, which is not loaded anew itself."""
    folder, server = explicit
    for plus in (1, 2, 3):
        write_plus(folder, PLUS_CONFIG + INLINE + CACHED, plus)
        server.load_model("m")
        assert asked(server, "m") == {1 + plus}
        assert asked(server, "e") == {1 + plus}


def test_nor_does_one_with_another_configuration_or_other_files(explicit):
    _, server = explicit
    assert asked(server, "m") == {2}
    config = json.dumps(
        {
            "backend": "python",
            "response_cache": {"enable": True},
            "parameters": {"execution": {"string_value": "inline"}},
            "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [1]}],
            "output": [{"name": "OUT", "data_type": "TYPE_FP32", "dims": [1]}],
        }
    )
    server.load_model("m", config=config, files={"1/model.py": dedent(PLUS.format(plus=5)).encode()})
    assert asked(server, "m") == {6}
    assert asked(server, "e") == {6}
    server.load_model("m", config=config, files={"1/model.py": dedent(PLUS.format(plus=6)).encode()})
    assert asked(server, "m") == {7}


def test_reloads_under_load_never_answer_from_before(explicit):
    folder, server = explicit
    stop = threading.Event()
    wrong = []

    def keep_asking(name):
        while not stop.is_set():
            ask(name, server, "e", {"IN": np.array([1], np.float32)})

    threads = [threading.Thread(target=keep_asking, args=(name,)) for name in PLAIN_DOORS]
    for thread in threads:
        thread.start()
    try:
        for plus in range(2, 8):
            write_plus(folder, PLUS_CONFIG + INLINE + CACHED, plus)
            server.load_model("m")
            wrong += [found for found in asked(server, "e") | asked(server, "m") if found != 1 + plus]
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert wrong == []


REFUSED = {
    "decoupled": (PLUS_CONFIG + CACHED + " model_transaction_policy { decoupled: true }", "support decoupled models"),
    "sequences": (
        PLUS_CONFIG + CACHED + " max_batch_size: 1 sequence_batching { }",
        "support models with sequence_batching",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_such_models_are_refused_at_their_load(tmp_path, case):
    config, sentence = REFUSED[case]
    write_plus(tmp_path, config + INLINE, 1)
    ports = {"http_port": 0, "grpc_port": 0, "metrics_port": 0}
    server = Server(tmp_path, model_control_mode="explicit", cache_config=CACHE, **ports)
    with server, pytest.raises(InvalidArgumentError, match=f"response cache does not currently {sentence}"):
        server.load_model("m")


@pytest.mark.parametrize(
    "more", ["model_transaction_policy { decoupled: true }", "max_batch_size: 1 sequence_batching { }"]
)
def test_an_ensemble_with_such_a_step_is_refused_too(tmp_path, more):
    write_plus(tmp_path, PLUS_CONFIG + INLINE + more, 1)
    batched = "max_batch_size: 1" if "max_batch" in more else ""
    (write_config(tmp_path, "e", ONCE + batched) / "1").mkdir()
    ports = {"http_port": 0, "grpc_port": 0, "metrics_port": 0}
    server = Server(tmp_path, model_control_mode="explicit", cache_config=CACHE, **ports)
    with server, pytest.raises(InvalidArgumentError, match="response cache does not currently support"):
        server.load_model("e")


def test_a_server_without_a_cache_executes_every_request(tmp_path):
    lay_out(tmp_path)
    ports = {"http_port": 0, "grpc_port": 0, "metrics_port": 0}
    with Server(tmp_path, **ports) as server:
        inputs = fresh()
        assert counted(server.model("counted").infer(inputs)) != counted(server.model("counted").infer(inputs))
        assert server.model("counted").statistics().inference["cache_miss"].count == 0
