"""Ensembles, as each door shows them: borders, absent tensors, errors, statistics, what is in flight at a stop."""

import json
import threading
import urllib.request

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

from charonia.api import Server
from charonia.testing.device import FakeDevice, FakeDeviceBackend
from tests.every_door.doors import DOORS, RefusedError
from tests.every_door.served import ask
from tests.models import onnx_models
from tests.models.gated import PATIENCE_S, Gate, write_gated
from tests.models.repository import write_config, write_python_model

INLINE = 'parameters { key: "execution" value { string_value: "inline" } }'
ADD = """
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            return [self.answer(request) for request in requests]

        def answer(self, request):
            given = {tensor.name(): tensor.as_numpy() for tensor in request.inputs()}
            left, right = given["IN0"], given.get("IN1")
            if (left < 0).any():
                raise ValueError("negative")
            sums = left if right is None else left + right
            outputs = [pb_utils.Tensor("SUM", sums.astype(np.float32))]
            if right is not None:
                outputs.append(pb_utils.Tensor("DIFF", (left - right).astype(np.float32)))
            return pb_utils.InferenceResponse(outputs)
"""
ADD_CONFIG = f"""
    max_batch_size: 4
    input [
      {{ name: "IN0" data_type: TYPE_FP32 dims: [ -1 ] }},
      {{ name: "IN1" data_type: TYPE_FP32 dims: [ -1 ] optional: true }}
    ]
    output [
      {{ name: "SUM" data_type: TYPE_FP32 dims: [ -1 ] }}, {{ name: "DIFF" data_type: TYPE_FP32 dims: [ -1 ] }}
    ]
    dynamic_batching {{ }}
    {INLINE}
"""


def ensemble(repository, name, inputs, outputs, *steps, max_batch_size=4, options=""):
    """`inputs` and `outputs` as ("NAME", "TYPE", "dims"), steps as ("model", {input: tensor}, {output: tensor})."""
    lines = ['platform: "ensemble"', f"max_batch_size: {max_batch_size}"]
    for kind, ios in (("input", inputs), ("output", outputs)):
        lines += [f'{kind} {{ name: "{io}" data_type: TYPE_{datatype} {rest} }}' for io, datatype, rest in ios]
    lines.append(f"ensemble_scheduling {{ {options}")
    for model, given, made in steps:
        model, _, version = model.partition("/")
        maps = [f'input_map {{ key: "{key}" value: "{value}" }}' for key, value in given.items()]
        maps += [f'output_map {{ key: "{key}" value: "{value}" }}' for key, value in made.items()]
        lines.append(f'step {{ model_name: "{model}" model_version: {version or -1} {" ".join(maps)} }}')
    (write_config(repository, name, "\n".join([*lines, "}"])) / "1").mkdir()


def identity(repository, name, datatype="FP32", dims="-1", max_batch_size=4, more=""):
    config = f"""
        backend: "identity"
        max_batch_size: {max_batch_size}
        input {{ name: "IN" data_type: TYPE_{datatype} dims: [ {dims} ] }}
        output {{ name: "OUT" data_type: TYPE_{datatype} dims: [ {dims} ] }}
        {more}
    """
    (write_config(repository, name, config) / "1").mkdir()


FP32 = ("FP32", "dims: [ -1 ]")


def lay_out(repository):
    write_python_model(repository, "add", ADD_CONFIG, ADD)
    write_python_model(repository, "versions", ADD_CONFIG + "version_policy { all { } }", ADD)
    write_python_model(
        repository, "versions", ADD_CONFIG + "version_policy { all { } }", ADD.replace("+ right", "* right"), 2
    )
    identity(repository, "id")
    identity(repository, "plain", dims="2", max_batch_size=0)
    identity(repository, "text", "STRING")
    onnx_models.save(onnx_models.add_sub(dims=["N", 2]), repository, "onnx")
    write_config(repository, "onnx", "max_batch_size: 4")
    ensemble(
        repository,
        "diamond",
        [("A", *FP32), ("B", *FP32)],
        [("SUM", *FP32), ("DIFF", *FP32), ("BOTH", *FP32)],
        ("add", {"IN0": "A", "IN1": "B"}, {"SUM": "SUM", "DIFF": "DIFF"}),
        ("add", {"IN0": "SUM", "IN1": "DIFF"}, {"SUM": "BOTH"}),
    )
    ensemble(
        repository,
        "versioned",
        [("A", *FP32), ("B", *FP32)],
        [("PLUS", *FP32), ("TIMES", *FP32)],
        ("versions/1", {"IN0": "A", "IN1": "B"}, {"SUM": "PLUS"}),
        ("versions/2", {"IN0": "A", "IN1": "B"}, {"SUM": "TIMES"}),
    )
    ensemble(
        repository,
        "mixed",
        [("IN", "FP32", "dims: [ 2 ]")],
        [("OUT", "FP32", "dims: [ 2 ]")],
        ("id", {"IN": "IN"}, {"OUT": "x"}),
        ("plain", {"IN": "x"}, {"OUT": "y"}),
        ("id", {"IN": "y"}, {"OUT": "OUT"}),
    )
    ensemble(
        repository,
        "mixed_plain",
        [("IN", "FP32", "dims: [ 2 ]")],
        [("OUT", "FP32", "dims: [ 2 ]")],
        ("plain", {"IN": "IN"}, {"OUT": "x"}),
        ("id", {"IN": "x"}, {"OUT": "OUT"}),
        max_batch_size=0,
    )
    ensemble(
        repository,
        "reshaped",
        [("IN", "FP32", "dims: [ 2, 2 ] reshape: { shape: [ 4 ] }")],
        [("OUT", "FP32", "dims: [ 4, 1 ] reshape: { shape: [ 4 ] }")],
        ("id", {"IN": "IN"}, {"OUT": "OUT"}),
    )
    ensemble(
        repository,
        "texts",
        [("IN", "STRING", "dims: [ -1 ]")],
        [("OUT", "STRING", "dims: [ -1 ]")],
        ("text", {"IN": "IN"}, {"OUT": "x"}),
        ("text", {"IN": "x"}, {"OUT": "OUT"}),
    )
    ensemble(
        repository,
        "optional",
        [("A", *FP32), ("B", "FP32", "dims: [ -1 ] optional: true")],
        [("SUM", *FP32), ("DIFF", *FP32)],
        ("add", {"IN0": "A", "IN1": "B"}, {"SUM": "s", "DIFF": "d"}),
        ("add", {"IN0": "s", "IN1": "d"}, {"SUM": "SUM", "DIFF": "DIFF"}),
    )
    ensemble(
        repository,
        "nested",
        [("A", *FP32), ("B", *FP32)],
        [("OUT", *FP32)],
        ("diamond", {"A": "A", "B": "B"}, {"BOTH": "x"}),
        ("id", {"IN": "x"}, {"OUT": "OUT"}),
    )
    ensemble(
        repository,
        "onnx_chain",
        [("IN", "FP32", "dims: [ 2 ]")],
        [("OUT", "FP32", "dims: [ 2 ]")],
        ("onnx", {"INPUT0": "IN", "INPUT1": "IN"}, {"OUTPUT0": "x", "OUTPUT1": "y"}),
        ("onnx", {"INPUT0": "x", "INPUT1": "y"}, {"OUTPUT0": "OUT"}),
    )


def floats(*rows):
    return np.array(rows, np.float32)


PAIR = {"A": floats([1, 2], [3, 4]), "B": floats([10, 20], [30, 40])}


@pytest.mark.parametrize(
    ("model", "outputs", "expected"),
    [
        ("diamond", (), {"SUM": [[11, 22], [33, 44]], "DIFF": [[-9, -18], [-27, -36]], "BOTH": [[2, 4], [6, 8]]}),
        ("diamond", ("SUM",), {"SUM": [[11, 22], [33, 44]]}),
        ("diamond", ("BOTH", "DIFF"), {"BOTH": [[2, 4], [6, 8]], "DIFF": [[-9, -18], [-27, -36]]}),
        ("versioned", (), {"PLUS": [[11, 22], [33, 44]], "TIMES": [[10, 40], [90, 160]]}),
        ("versioned", ("TIMES",), {"TIMES": [[10, 40], [90, 160]]}),
        ("nested", (), {"OUT": [[2, 4], [6, 8]]}),
        ("optional", (), {"SUM": [[2, 4], [6, 8]], "DIFF": [[20, 40], [60, 80]]}),
    ],
)
def test_a_graph_is_followed(door, model, outputs, expected):
    answer = door.infer(model, PAIR, outputs=outputs)
    assert {name: array.tolist() for name, array in answer.outputs.items()} == expected
    assert answer.model_version == "1"


def test_absent_optional_inputs_and_outputs(door):
    answer = door.infer("optional", {"A": floats([1])})
    assert {name: array.tolist() for name, array in answer.outputs.items()} == {"SUM": [[1]]}


@pytest.mark.parametrize("model", ["mixed", "reshaped", "onnx_chain", "mixed_plain"])
def test_shapes_at_the_borders(door, model):
    shape = {"reshaped": (3, 2, 2), "onnx_chain": (3, 2), "mixed": (1, 2), "mixed_plain": (2,)}[model]
    given = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    made = door.infer(model, {"IN": given})["OUT"]
    assert made.shape == ((3, 4, 1) if model == "reshaped" else shape)
    assert made.ravel().tolist() == (given * (2 if model == "onnx_chain" else 1)).ravel().tolist()


@pytest.mark.parametrize("texts", [[["", "a"], ["äö", "x" * 10_000]], [[]]], ids=["texts", "none"])
def test_strings_and_empty_tensors(door, texts):
    given = np.array(texts, np.object_).reshape(len(texts), -1)
    made = door.infer("texts", {"IN": given})["OUT"]
    assert made.shape == given.shape
    assert [each if isinstance(each, str) else each.decode() for each in made.ravel()] == given.ravel().tolist()


def test_many_rows_at_once_are_the_same_as_one_by_one(server, door):
    whole = door.infer("nested", PAIR)["OUT"]
    alone = [
        door.infer("nested", {name: array[row : row + 1] for name, array in PAIR.items()})["OUT"] for row in (0, 1)
    ]
    assert whole.tolist() == np.concatenate(alone).tolist()


@pytest.mark.parametrize(
    ("model", "inputs", "code", "said"),
    [
        ("diamond", {"A": floats([-1]), "B": floats([1])}, "INTERNAL", "in ensemble 'diamond', step 1 (model 'add'): "),
        (
            "nested",
            {"A": floats([-1]), "B": floats([1])},
            "INTERNAL",
            "in ensemble 'nested', step 1 (model 'diamond'): in",
        ),
        ("diamond", {"A": floats([1])}, "INVALID_ARGUMENT", "missing required input(s) ['B']"),
        (
            "diamond",
            {"A": floats([1, 2, 3]), "B": floats([1, 2])},
            "INTERNAL",
            "in ensemble 'diamond', step 1 (model 'add'): ",
        ),
        (
            "diamond",
            {"A": floats(*[[1]] * 5), "B": floats(*[[1]] * 5)},
            "INVALID_ARGUMENT",
            "must be <= 4 for 'diamond'",
        ),
        ("mixed", {"IN": floats([1, 2], [3, 4])}, "INVALID_ARGUMENT", "in ensemble 'mixed', step 2 (model 'plain'): "),
    ],
)
def test_errors_name_ensemble_step_and_model(door, model, inputs, code, said):
    with pytest.raises(RefusedError) as refused:
        door.infer(model, inputs)
    assert (refused.value.code, said in str(refused.value)) == (code, True), str(refused.value)


def test_metadata_and_config_are_those_of_any_model(server):
    with httpclient.InferenceServerClient(f"127.0.0.1:{server.ports['http']}") as client:
        metadata = client.get_model_metadata("diamond")
        config = client.get_model_config("diamond")
    assert (metadata["platform"], metadata["versions"]) == ("ensemble", ["1"])
    assert [each["name"] for each in metadata["inputs"]] == ["A", "B"]
    assert [step["model_name"] for step in config["ensemble_scheduling"]["step"]] == ["add", "add"]
    with grpcclient.InferenceServerClient(f"127.0.0.1:{server.ports['grpc']}") as client:
        assert client.get_model_metadata("diamond").outputs[2].shape == [-1, -1]
        assert client.is_model_ready("diamond")


def test_the_answer_says_of_which_sequence_it_is(server):
    with grpcclient.InferenceServerClient(f"127.0.0.1:{server.ports['grpc']}") as client:
        given = grpcclient.InferInput("IN", [1, 2], "FP32").set_data_from_numpy(floats([1, 2]))
        answer = client.infer("onnx_chain", [given], sequence_id=5, sequence_start=True).get_response()
    assert answer.parameters["sequence_id"].int64_param == 5
    assert answer.parameters["sequence_start"].bool_param
    assert not answer.parameters["sequence_end"].bool_param


def test_many_at_once_from_many_clients(server, clients):
    def go(number):
        inputs = {"A": floats([number]), "B": floats([1])}
        return ask(DOORS[number % len(DOORS)], server, "nested", inputs)["OUT"].tolist()

    assert [*clients.map(go, range(200))] == [[[2.0 * number]] for number in range(200)]


@pytest.mark.parametrize("name", DOORS)
def test_ensemble_and_steps_are_counted_each(tmp_path, name):
    identity(tmp_path, "id")
    ensemble(
        tmp_path,
        "twice",
        [("IN", *FP32)],
        [("OUT", *FP32)],
        ("id", {"IN": "IN"}, {"OUT": "x"}),
        ("id", {"IN": "x"}, {"OUT": "OUT"}),
    )
    with Server(tmp_path, http_port=0, grpc_port=0) as server:
        ask(name, server, "twice", {"IN": floats([1], [2])})
        outer, inner = (server.model(model).statistics() for model in ("twice", "id"))
    assert (outer.inference_count, outer.execution_count, outer.inference["success"].count) == (2, 1, 1)
    assert (inner.inference_count, inner.execution_count, inner.inference["success"].count) == (4, 2, 2)
    for part in ("compute_input", "compute_infer", "compute_output"):
        assert outer.inference[part].ns == inner.inference[part].ns
    assert [(batch.batch_size, batch.compute_infer.count) for batch in outer.batches] == [(2, 1)]


@pytest.fixture
def gated(tmp_path):
    """A server with an ensemble of a gated step between two others, and the gate."""
    gate = Gate(tmp_path / "gate", ())
    repository = tmp_path / "models"
    policy = "dynamic_batching { default_queue_policy { max_queue_size: 1 } }"
    write_gated(repository, "slow", gate, f"max_batch_size: 1 {policy}")
    identity(repository, "id", max_batch_size=1)
    ensemble(
        repository,
        "waits",
        [("IN", *FP32)],
        [("OUT", *FP32)],
        ("id", {"IN": "IN"}, {"OUT": "x"}),
        ("slow", {"IN": "x"}, {"OUT": "y"}),
        ("id", {"IN": "y"}, {"OUT": "OUT"}),
        max_batch_size=1,
    )
    server = Server(repository, http_port=0, grpc_port=0, exit_timeout_secs=20).start()
    yield server, gate
    gate.open_for_good()
    server.stop()
    gate.close()


def test_a_full_step_refuses_at_once_and_the_others_are_answered(gated):
    server, gate = gated
    model = server.model("waits")
    first = model.submit({"IN": floats([0])})
    gate.next_entered()
    others = [model.submit({"IN": floats([number])}) for number in range(1, 5)]
    done = [each.exception(PATIENCE_S) for each in others[1:]]
    assert ["Exceeds maximum queue size" in str(error) for error in done] == [True] * 3
    assert all(str(error).startswith("in ensemble 'waits', step 2 (model 'slow'): ") for error in done)
    gate.open_for_good()
    assert [each.result(PATIENCE_S).outputs["OUT"].numpy().tolist() for each in (first, others[0])] == [[[0]], [[1]]]


def test_a_stop_waits_for_what_an_ensemble_has_accepted(gated):
    server, gate = gated
    future = server.model("waits").submit({"IN": floats([7])})
    gate.next_entered()
    stopped = threading.Thread(target=server.stop)
    stopped.start()
    gate.open_for_good()
    assert future.result(PATIENCE_S).outputs["OUT"].numpy().tolist() == [[7]]
    stopped.join(PATIENCE_S)
    assert not stopped.is_alive()


def test_a_cancelled_request_leaves_the_step_where_it_waits(gated):
    server, gate = gated
    model = server.model("waits")
    first = model.submit({"IN": floats([0])})
    gate.next_entered()
    second = model.submit({"IN": floats([1])})
    second.cancel()
    third = model.submit({"IN": floats([2])})  # there is room in the queue of one again
    gate.open_for_good()
    assert [each.result(PATIENCE_S).outputs["OUT"].numpy().tolist() for each in (first, third)] == [[[0]], [[2]]]


DEVICE = """
    backend: "fake_device"
    max_batch_size: 4
    input { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }
    output { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }
"""


@pytest.mark.parametrize("name", DOORS)
def test_tensors_stay_on_their_device_until_the_wire(tmp_path, monkeypatch, name):
    device = FakeDevice()
    point = type("Point", (), {"load": lambda self: lambda: FakeDeviceBackend(device)})()
    monkeypatch.setattr("charonia.backends.registry._entry_points", lambda: {"fake_device": point})
    for model in ("a", "b", "c"):
        (write_config(tmp_path, model, DEVICE) / "1").mkdir()
    ensemble(
        tmp_path,
        "on_device",
        [("IN", *FP32)],
        [("OUT", *FP32)],
        ("a", {"IN": "IN"}, {"OUT": "x"}),
        ("b", {"IN": "x"}, {"OUT": "y"}),
        ("c", {"IN": "y"}, {"OUT": "OUT"}),
    )
    with Server(tmp_path, http_port=0, grpc_port=0) as server:
        made = ask(name, server, "on_device", {"IN": floats([1, 2])})["OUT"]
    assert made.tolist() == [[4, 5]]
    assert (device.uploads, device.downloads) == (1, 1)


def test_generate_works_on_an_ensemble(server):
    body = json.dumps({"IN": ["a"]}).encode()
    address = f"http://127.0.0.1:{server.ports['http']}/v2/models/texts/generate"
    with urllib.request.urlopen(urllib.request.Request(address, body), timeout=PATIENCE_S) as answer:
        assert json.loads(answer.read()) == {
            "model_name": "texts",
            "model_version": "1",
            "OUT": "a",
            "sequence_id": 0,
            "sequence_start": False,
            "sequence_end": False,
        }
