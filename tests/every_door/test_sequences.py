"""Sequences through every door: a model that keeps a sum for each of them, in both forms and by both strategies."""

import itertools
import os
import queue
import signal

import numpy as np
import pytest
import tritonclient.grpc as grpcclient

from charonia.api import Server
from charonia.core.errors import CharoniaError
from tests.every_door.doors import RefusedError
from tests.every_door.served import value_of
from tests.every_door.watched import WatchedSequences
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_python_model

CONFIG = """
    max_batch_size: {rows}
    input [ {{ name: "IN" data_type: TYPE_INT32 dims: [ 1 ] }} ]
    output [ {{ name: "OUT" data_type: TYPE_INT64 dims: [ 4 ] }} ]
    instance_group [ {{ count: {instances} kind: KIND_CPU }} ]
    parameters {{ key: "execution" value {{ string_value: "{form}" }} }}
    sequence_batching {{
      max_sequence_idle_microseconds: {idle_us}
      {strategy}
      control_input [
        {{ name: "START" control {{ kind: CONTROL_SEQUENCE_START fp32_false_true: [ 0, 1 ] }} }},
        {{ name: "END" control {{ kind: CONTROL_SEQUENCE_END bool_false_true: [ false, true ] }} }},
        {{ name: "READY" control {{ kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] }} }}
        {id}
      ]
    }}
"""
ID = ', {{ name: "ID" control {{ kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_{} }} }}'
# OUT is the sum, START, END, and the process and instance that know the sum.
CODE = """
    import os
    import numpy as np
    import triton_python_backend_utils as pb_utils

    def given(request, name):
        return pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()[0]

    class TritonPythonModel:
        def initialize(self, args):
            self.sums = {}
            self.number = int(args["model_instance_name"].rsplit("_", 1)[1])

        def execute(self, requests):
            return [self.one(request) for request in requests]

        def one(self, request):
            if not given(request, "READY"):
                assert not (given(request, "IN") or given(request, "START") or given(request, "END"))
                return self.answer(0, request)
            key = request.correlation_id()
            if given(request, "START"):
                self.sums[key] = 0
            self.sums[key] += int(given(request, "IN"))
            total = self.sums[key]
            if given(request, "END"):
                del self.sums[key]
            return self.answer(total, request)

        def answer(self, total, request):
            place = os.getpid() * 100 + self.number
            facts = [total, int(given(request, "START")), int(given(request, "END")), place]
            return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([facts], np.int64))])
"""
# Executes each request as often as IN says. OUT is how often it was, how often that began, and with how many others.
ITERATIVE = """
    max_batch_size: 4
    input [ {{ name: "IN" data_type: TYPE_INT32 dims: [ 1 ] }} ]
    output [ {{ name: "OUT" data_type: TYPE_INT64 dims: [ 3 ] }} ]
    parameters {{ key: "execution" value {{ string_value: "{form}" }} }}
    sequence_batching {{
      iterative_sequence: true
      {strategy}
      control_input {{ name: "START" control {{ kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] }} }}
      control_input {{ name: "READY" control {{ kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] }} }}
    }}
"""
COUNTING = """
    import numpy as np
    import triton_python_backend_utils as pb_utils

    def given(request, name):
        return pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()[0]

    class TritonPythonModel:
        def initialize(self, args):
            self.turns = {}

        def execute(self, requests):
            return [self.one(request) for request in requests]

        def one(self, request):
            if not given(request, "READY"):
                return self.answer([0, 0])
            key = request.correlation_id()
            turns, starts = self.turns.pop(key, (0, 0))
            turns, starts = turns + 1, starts + given(request, "START")
            if turns < given(request, "IN"):
                self.turns[key] = turns, starts
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
                return None
            return self.answer([turns, starts])

        def answer(self, facts):
            return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([[*facts, len(self.turns)]], np.int64))])
"""
FORMS = ("inline", "isolated")
STRATEGIES = {"direct": "direct { }", "oldest": "oldest { max_candidate_sequences: 4 }"}
MODELS = [f"{form}_{strategy}" for form in FORMS for strategy in STRATEGIES]
_ids = itertools.count(1)


def write(repository, name, *, form="inline", strategy="", rows=4, instances=1, idle_us=60_000_000, id=""):
    wanted = ID.format(id) if id else ""
    config = CONFIG.format(form=form, strategy=strategy, rows=rows, instances=instances, idle_us=idle_us, id=wanted)
    write_python_model(repository, name, config, CODE)


def lay_out(repository):
    for form in FORMS:
        for name, strategy in STRATEGIES.items():
            write(repository, f"{form}_{name}", form=form, strategy=strategy)
            config = ITERATIVE.format(form=form, strategy=strategy)
            write_python_model(repository, f"iterative_{form}_{name}", config, COUNTING)
        write(repository, f"{form}_two", form=form, instances=2, rows=2)
    for datatype in ("UINT64", "INT64", "UINT32", "INT32", "STRING"):
        write(repository, f"id_{datatype}", id=datatype)
    for name, strategy in STRATEGIES.items():
        write(repository, f"brief_{name}", strategy=strategy, idle_us=200_000)


class Client:
    """One sequence of one model."""

    def __init__(self, door, model, id=None):
        self._door, self._model, self._id = door, model, id or next(_ids)

    def send(self, value, *, start=False, end=False):
        inputs = {"IN": np.array([[value]], np.int32)}
        ids = {"sequence_id": self._id, "sequence_start": start, "sequence_end": end}
        return self._door.infer(self._model, inputs, **ids)["OUT"].ravel().tolist()


def count_of(server, model):
    return server.model(model).loaded.scheduler.sequence_count


@pytest.mark.parametrize("model", MODELS)
def test_a_sequence_sums_up(door, model):
    client = Client(door, model)
    told = [client.send(5, start=True), client.send(6), client.send(7), client.send(8, end=True)]
    assert [each[:3] for each in told] == [[5, 1, 0], [11, 0, 0], [18, 0, 0], [26, 0, 1]]
    assert client.send(9, start=True, end=True)[:3] == [9, 1, 1]


@pytest.mark.parametrize("model", MODELS)
def test_interleaved_sequences_do_not_mix(door, model):
    clients = [Client(door, model) for _ in range(4)]
    for turn in range(5):
        sums = [client.send(number, start=turn == 0, end=turn == 4)[0] for number, client in enumerate(clients)]
        assert sums == [number * (turn + 1) for number in range(4)]


@pytest.mark.parametrize("model", MODELS)
def test_more_sequences_than_slots_side_by_side(server, model, clients):
    """Each thread has a sequence; those without a slot wait for one."""
    handle = server.model(model)

    def one(number):
        key = next(_ids)
        last = 0
        for turn in range(20):
            inputs = {"IN": np.array([[number]], np.int32)}
            flags = {"sequence_start": turn == 0, "sequence_end": turn == 19}
            last = handle.infer(inputs, sequence_id=key, **flags)["OUT"].ravel()[0]
        return last

    assert list(clients.map(one, range(24))) == [number * 20 for number in range(24)]
    assert count_of(server, model) == 0


@pytest.mark.parametrize("model", ["inline_two", "isolated_two"])
def test_a_sequence_stays_with_its_instance(door, model):
    clients = [Client(door, model) for _ in range(4)]
    first = [client.send(1, start=True)[3] for client in clients]
    assert len(set(first)) == 2
    assert [client.send(1)[3] for client in reversed(clients)] == first[::-1]
    assert [client.send(1, end=True)[::3] for client in clients] == [[3, place] for place in first]


@pytest.mark.parametrize(
    ("model", "id"),
    [("id_UINT64", 2**63 - 1), ("id_INT64", 12), ("id_UINT32", 2**32 - 1), ("id_INT32", 7), ("id_STRING", "ü" * 64)],
)
def test_every_form_of_id(door, model, id):
    client = Client(door, model, id)
    assert [client.send(1, start=True)[0], client.send(2)[0], client.send(3, end=True)[0]] == [1, 3, 6]


def test_a_number_and_a_text_are_two_sequences(door):
    number, text = Client(door, "inline_direct", 4711), Client(door, "inline_direct", "4711")
    assert [number.send(1, start=True)[0], text.send(10, start=True)[0]] == [1, 10]
    assert [number.send(1, end=True)[0], text.send(10, end=True)[0]] == [2, 20]


@pytest.mark.parametrize(
    ("model", "id", "words"),
    [
        (
            "id_INT32",
            2**40,
            "correlation id 1099511627776 does not fit sequence batching control 'ID' of model 'id_INT32'",
        ),
        ("id_INT64", "seven", "control 'ID' data-type is 'BYTES', but model 'id_INT64' expects 'INT64'"),
        ("id_STRING", 7, "control 'ID' data-type is 'UINT64', but model 'id_STRING' expects 'BYTES'"),
    ],
)
def test_an_id_that_the_model_cannot_read(door, model, id, words):
    with pytest.raises(RefusedError, match=words) as refused:
        Client(door, model, id).send(1, start=True)
    assert refused.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("model", ["inline_direct", "inline_oldest"])
def test_wrong_requests(door, model):
    inputs = {"IN": np.zeros((1, 1), np.int32)}
    two_rows = {"IN": np.zeros((2, 1), np.int32)}
    for given, options, words in (
        (inputs, {}, f"to model '{model}' must specify a non-zero or non-empty correlation ID"),
        (inputs, {"sequence_id": 99_999}, "for sequence 99999 .* must specify the START flag on the first request"),
        (two_rows, {"sequence_id": 99_999, "sequence_start": True}, "must specify batch-size 1 due to requirements of"),
    ):
        with pytest.raises(RefusedError, match=words) as refused:
            door.infer(model, given, **options)
        assert refused.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("model", MODELS)
def test_a_start_in_the_middle_begins_anew(door, model):
    client = Client(door, model)
    assert [client.send(5, start=True)[0], client.send(6, start=True)[0], client.send(1, end=True)[0]] == [5, 6, 7]


@pytest.mark.parametrize("model", ["brief_direct", "brief_oldest"])
def test_abandoned_sequences_make_room_and_leave_nothing(door, server, model):
    """More than there are slots: the later ones wait until the first ones have been idle for too long."""
    watched = WatchedSequences(server.model(model))
    for _ in range(2):
        for number in range(10):
            assert Client(door, model, 1000 + number).send(number, start=True)[0] == number
        with pytest.raises(RefusedError, match="must specify the START flag"):
            Client(door, model, 1000).send(1)
    watched.wait_for_none()


def sums_of_a_stream(server, model):
    """What 400 requests of 4 sequences are answered with, by sequence; they are sent without waiting for any answer."""
    answers, keys = queue.Queue(), [next(_ids) for _ in range(4)]
    with grpcclient.InferenceServerClient(f"127.0.0.1:{server.ports['grpc']}") as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for turn in range(100):
            for key in keys:
                tensor = grpcclient.InferInput("IN", [1, 1], "INT32")
                tensor.set_data_from_numpy(np.array([[turn]], np.int32))
                flags = {"sequence_start": turn == 0, "sequence_end": turn == 99}
                client.async_stream_infer(model, [tensor], sequence_id=key, request_id=str(key), **flags)
        sums = {str(key): [] for key in keys}
        for _ in range(400):
            result, error = answers.get(timeout=PATIENCE_S)
            assert error is None
            sums[result.get_response().id].append(result.as_numpy("OUT").ravel()[0])
        client.stop_stream()
    return list(sums.values())


@pytest.mark.parametrize("model", MODELS)
def test_the_order_of_a_stream_is_kept(server, model):
    assert sums_of_a_stream(server, model) == [np.cumsum(range(100)).tolist()] * 4
    assert count_of(server, model) == 0


@pytest.mark.parametrize("model", ["inline_direct", "isolated_oldest"])
def test_more_sequences_on_one_stream_than_slots(server, model):
    """The first answer of a sequence that waits for a slot holds back those behind it, and the stream is read on."""
    answers, keys = queue.Queue(), [next(_ids) for _ in range(6)]
    with grpcclient.InferenceServerClient(f"127.0.0.1:{server.ports['grpc']}") as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        for turn in range(100):
            for key in keys:
                tensor = grpcclient.InferInput("IN", [1, 1], "INT32")
                tensor.set_data_from_numpy(np.array([[1]], np.int32))
                flags = {"sequence_start": turn == 0, "sequence_end": turn == 99}
                client.async_stream_infer(model, [tensor], sequence_id=key, **flags)
        for turn in range(1, 101):
            for _ in keys:
                result, error = answers.get(timeout=PATIENCE_S)
                assert error is None
                assert result.as_numpy("OUT").ravel()[0] == turn
        client.stop_stream()


@pytest.mark.parametrize("strategy", STRATEGIES.values(), ids=STRATEGIES)
def test_a_cancelled_request_ends_its_sequence(gated, strategy):
    """As Triton: those that wait end CANCELLED; and the next in the slot is served."""
    served = gated(f"max_batch_size: 1 sequence_batching {{ {strategy.replace('4', '1')} }}")
    watched = WatchedSequences(served.model)
    inside = served.send(1, sequence_id=1, sequence_start=True)
    served.gate.next_entered()
    waiting = [served.send(value, sequence_id=1) for value in (2, 3)]
    other = served.send(9, sequence_id=2, sequence_start=True, sequence_end=True)
    waiting[0].cancel()
    with pytest.raises(CharoniaError, match="a request of sequence 1, and with it this one, was cancelled") as told:
        waiting[1].result(PATIENCE_S)
    assert told.value.code.name == "CANCELLED"
    served.gate.open_for_good()
    assert value_of(inside) == 1
    assert value_of(other) == 9
    watched.wait_for_none()


@pytest.mark.parametrize("model", [f"iterative_{model}" for model in MODELS])
def test_a_request_is_executed_again_and_again(door, model):
    for turns in (1, 2, 5):
        assert door.infer(model, {"IN": np.array([[turns]], np.int32)})["OUT"].ravel().tolist() == [turns, 1, 0]


@pytest.mark.parametrize("model", [f"iterative_{model}" for model in MODELS])
def test_turns_of_many_requests_side_by_side(server, model, clients):
    handle = server.model(model)

    def one(turns):
        return handle.infer({"IN": np.array([[turns]], np.int32)})["OUT"].ravel().tolist()[:2]

    assert list(clients.map(one, range(1, 30))) == [[turns, 1] for turns in range(1, 30)]
    assert count_of(server, model) == 0


def test_a_reload_ends_sequences(tmp_path):
    """The new version knows nothing of those of the old one."""
    write(tmp_path, "m")
    with Server(tmp_path, model_control_mode="explicit", load_model=["m"]) as server:
        inputs = {"IN": np.array([[5]], np.int32)}
        server.model("m").infer(inputs, sequence_id=1, sequence_start=True)
        (tmp_path / "m" / "1" / "model.py").touch()
        server.load_model("m")
        with pytest.raises(CharoniaError, match="must specify the START flag"):
            server.model("m").infer(inputs, sequence_id=1)
        assert server.model("m").infer(inputs, sequence_id=1, sequence_start=True)["OUT"].ravel()[0] == 5


def test_fewer_instances_while_sequences_run(tmp_path):
    """Sequences go on where they are; their instance ends with them. The load does not wait for that."""
    write(tmp_path, "m", instances=3)
    with Server(tmp_path, model_control_mode="explicit", load_model=["m"]) as server:
        model = server.model("m")

        def send(key, **flags):
            return model.infer({"IN": np.array([[5]], np.int32)}, sequence_id=key, **flags)["OUT"].ravel().tolist()

        places = [send(key, sequence_start=True)[3] for key in (1, 2, 3)]
        threads = [runner._thread for runner in model.loaded.instances]
        config = (tmp_path / "m" / "config.pbtxt").read_text()
        (tmp_path / "m" / "config.pbtxt").write_text(config.replace("count: 3", "count: 1"))
        server.load_model("m")
        assert [send(key)[::3] for key in (1, 2, 3)] == [[10, place] for place in places]
        assert send(4, sequence_start=True)[3] == places[0]
        assert [send(key, sequence_end=True)[::3] for key in (1, 2, 3)] == [[15, place] for place in places]
        for thread in threads[1:]:
            thread.join(PATIENCE_S)
        assert [thread.is_alive() for thread in threads] == [True, False, False]


def test_a_killed_process_ends_its_sequences(tmp_path):
    write(tmp_path, "m", form="isolated")
    with Server(tmp_path) as server:
        model = server.model("m")
        inputs = {"IN": np.array([[5]], np.int32)}
        first = model.infer(inputs, sequence_id=1, sequence_start=True)["OUT"].ravel().tolist()
        watched = WatchedSequences(model)
        os.kill(first[3] // 100, signal.SIGKILL)
        watched.wait_for_none()
        with pytest.raises(CharoniaError, match="must specify the START flag"):
            model.infer(inputs, sequence_id=1)
        assert model.infer(inputs, sequence_id=1, sequence_start=True)["OUT"].ravel()[0] == 5


def test_padding_is_counted_in_batches_and_nowhere_else(tmp_path):
    write(tmp_path, "m")
    with Server(tmp_path, http_port=0, grpc_port=0) as server:
        model = server.model("m")

        def send(key, **flags):
            return model.infer({"IN": np.array([[5]], np.int32)}, sequence_id=key, **flags)

        send(1, sequence_start=True)
        send(2, sequence_start=True, sequence_end=True)
        with grpcclient.InferenceServerClient(f"127.0.0.1:{server.ports['grpc']}") as client:
            counted = client.get_inference_statistics("m", as_json=True)["model_stats"][0]
    assert int(counted["inference_count"]) == int(counted["inference_stats"]["success"]["count"]) == 2
    assert [(int(each["batch_size"]), int(each["compute_infer"]["count"])) for each in counted["batch_stats"]] == [
        (1, 1),
        (2, 1),
    ]
