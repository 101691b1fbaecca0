"""State that the server keeps for a sequence, through every door: it starts, stays, and reaches no other sequence."""

import itertools

import numpy as np
import pytest

from charonia.api import Server
from tests.every_door.doors import DOORS, RefusedError
from tests.every_door.served import ask
from tests.models import onnx_models
from tests.models.repository import write_config, write_python_model

CONTROLS = """
    control_input [
      { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] },
      { name: "READY" control [ { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } ] }
    ]
"""
SUM = """
    max_batch_size: %d
    input [ { name: "INPUT" data_type: TYPE_INT32 dims: [ 1 ] } ]
    output [ { name: "OUTPUT" data_type: TYPE_INT32 dims: [ 1 ] } %s ]
    sequence_batching {
      max_sequence_idle_microseconds: 60000000
      %s
      state [ { input_name: "STATE" output_name: "NEXT" data_type: TYPE_INT32 dims: [ 1 ] %s } ]
    }
"""
SEEN = ', { name: "NEXT" data_type: TYPE_INT32 dims: [ 1 ] }'
FILE = 'initial_state [ { name: "f" data_type: TYPE_INT32 dims: [ 1 ] data_file: "hundred" } ]'
SAMPLE = "value { data_type: TYPE_INT32 dims: [ 1 ] zero_data: true }"
SAMPLES = " ".join(f"inputs {{ key: '{name}' {SAMPLE} }}" for name in ("INPUT", "STATE", "START", "READY"))
WARM_UP = f"model_warmup [ {{ name: 'w' batch_size: 2 {SAMPLES} }} ]"
CACHE = """
    max_batch_size: 8
    input [ { name: "audio" data_type: TYPE_FP16 dims: [ 1 ] } ]
    output [ { name: "seen" data_type: TYPE_FP32 dims: [ 1 ] } ]
    sequence_batching {
      %s
      state [
        { input_name: "cache_last_channel" output_name: "cache_last_channel_next" data_type: TYPE_FP16 dims: [ -1 ] },
        { input_name: "cache_last_channel_len" output_name: "cache_last_channel_len_next" }
      ]
    }
"""
# Fails for negative inputs, after it has answered the others; leaves the state out where the input is 0.
PYTHON = """
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            return [self.answer(request) for request in requests]

        def answer(self, request):
            given = pb_utils.get_input_tensor_by_name(request, "INPUT").as_numpy()
            total = given + pb_utils.get_input_tensor_by_name(request, "STATE").as_numpy()
            if given.item() < 0:
                return pb_utils.InferenceResponse(error=pb_utils.TritonError("below zero"))
            outputs = [pb_utils.Tensor("OUTPUT", total)]
            if given.item() > 100:
                total = total.astype(np.float32)
            if given.item():
                outputs.append(pb_utils.Tensor("NEXT", total))
            return pb_utils.InferenceResponse(outputs)
"""
STRATEGIES = {"direct": "direct { }", "oldest": "oldest { max_candidate_sequences: 8 }"}
_ids = itertools.count(1)


def lay_out(repository):
    for name, strategy in STRATEGIES.items():
        for size in (0, 8):
            model = onnx_models.accumulator(first=["N"] if size else [])
            write(repository, f"sum_{name}_{size}", SUM % (size, "", f"{strategy} {CONTROLS}", ""), model)
        write(repository, f"cache_{name}", CACHE % strategy, onnx_models.streaming_cache())
        flags = "dims: [ 1 ] use_same_buffer_for_input_output: true use_growable_memory: true"
        growable = CACHE.replace("dims: [ -1 ]", flags) % strategy
        write(repository, f"growable_{name}", growable, onnx_models.streaming_cache())
        for form in ("isolated", "inline"):
            config = (
                SUM % (8, "", strategy, "") + f'parameters {{ key: "execution" value {{ string_value: "{form}" }} }}'
            )
            write_python_model(repository, f"python_{name}_{form}", config, PYTHON)
            listed = config.replace("TYPE_INT32 dims: [ 1 ] }  ]", f"TYPE_INT32 dims: [ 1 ] }} {SEEN} ]")
            assert listed != config
            write_python_model(repository, f"listed_{name}_{form}", listed, PYTHON)
    write(repository, "seen", SUM % (8, SEEN, f"oldest {{ }} {CONTROLS}", "") + WARM_UP, onnx_models.accumulator())
    write(repository, "file", SUM % (8, "", f"{CONTROLS}", FILE), onnx_models.accumulator())
    (repository / "file" / "initial_state").mkdir()
    (repository / "file" / "initial_state" / "hundred").write_bytes(np.array([100], np.int32).tobytes())


def write(repository, name, config, model):
    onnx_models.save(model, repository, name)
    write_config(repository, name, f'backend: "onnxruntime" {config}')


@pytest.fixture
def sequence(door, server):
    """`sequence(model)`: a function that sends one value with the flags given, for a new sequence; gives the output.

    From any thread: each call opens a door of its own.
    """

    def new(model, own_id=None, *, name="INPUT", output="OUTPUT", dtype=np.int32, batched=True):
        own_id = own_id or next(_ids)

        def send(value, start=False, end=False, outputs=()):
            array = np.full((1, 1) if batched else (1,), value, dtype)
            flags = {"sequence_id": own_id, "sequence_start": start, "sequence_end": end}
            answer = ask(door.name, server, model, {name: array}, outputs=outputs, **flags)
            return answer[output].item() if not outputs else answer

        return send

    return new


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("size", [0, 8])
def test_a_running_sum(sequence, strategy, size):
    send = sequence(f"sum_{strategy}_{size}", batched=size > 0)
    assert [send(1, start=True), send(2), send(3), send(4, end=True)] == [1, 3, 6, 10]


@pytest.mark.parametrize("model", ["sum_direct_8", "sum_oldest_8", "python_direct_inline", "python_oldest_isolated"])
def test_sequences_side_by_side_have_nothing_in_common(sequence, clients, model):
    sends = [sequence(model, own_id) for own_id in (*range(7001, 7004), "7001", "seven", "7002")]
    for step in range(1, 6):
        futures = [clients.submit(send, n * step, step == 1, step == 5) for n, send in enumerate(sends, 1)]
        totals = [n * sum(range(1, step + 1)) for n in range(1, len(sends) + 1)]
        assert [future.result() for future in futures] == totals


@pytest.mark.parametrize("model", ["sum_direct_8", "python_oldest_inline", "python_direct_isolated"])
def test_a_sequence_that_starts_again_has_forgotten(sequence, model):
    send = sequence(model)
    assert [send(5, start=True), send(1), send(7, start=True), send(1, end=True)] == [5, 6, 7, 8]
    assert send(2, start=True, end=True) == 2
    with pytest.raises(RefusedError, match="must specify the START flag"):
        send(1)


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("model", ["cache", "growable"])
def test_two_states_of_which_one_grows(sequence, clients, model, strategy):
    """Sequences of other lengths can't share a batch, and don't disturb one another."""
    sends = [sequence(f"{model}_{strategy}", name="audio", output="seen", dtype=np.float16) for _ in range(4)]
    sends[0](50, start=True)  # the only one that is a request ahead
    for step in range(1, 5):
        futures = [clients.submit(send, step, step == 1 and send is not sends[0], step == 4) for send in sends]
        sums = [sum(range(step + 1))] * 4
        assert [future.result() for future in futures] == [sums[0] + 50, *sums[1:]]


def test_the_initial_state_comes_from_a_file(sequence):
    """The model takes START for a new sum; the data is seen where it does not."""
    send = sequence("file")
    assert [send(1, start=True), send(2, end=True)] == [1, 3]


def test_a_state_that_is_an_output_too_can_be_asked_for(sequence):
    send = sequence("seen")
    send(3, start=True)
    assert list(send(4, outputs=("NEXT",)).outputs) == ["NEXT"]
    answer = send(5, end=True, outputs=("OUTPUT", "NEXT"))
    assert (answer["OUTPUT"].item(), answer["NEXT"].item()) == (12, 12)


def test_a_state_that_is_no_output_can_not(sequence):
    with pytest.raises(RefusedError, match="'NEXT'") as refused:
        sequence("sum_direct_8")(1, start=True, end=True, outputs=("NEXT",))
    assert refused.value.code == "INVALID_ARGUMENT"


def test_a_client_can_not_send_the_state(door):
    inputs = {"INPUT": np.ones((1, 1), np.int32), "STATE": np.full((1, 1), 9, np.int32)}
    with pytest.raises(RefusedError, match="'STATE'") as refused:
        door.infer("sum_direct_8", inputs, sequence_id=1, sequence_start=True, sequence_end=True)
    assert refused.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("form", ["isolated", "inline"])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_python_models_leave_states_out_fail_and_err(sequence, strategy, form):
    send = sequence(f"python_{strategy}_{form}")
    assert [send(1, start=True), send(0), send(2)] == [1, 1, 3]
    with pytest.raises(RefusedError, match="below zero"):
        send(-1)
    with pytest.raises(RefusedError, match="output 'NEXT' with datatype FP32, its configuration says INT32"):
        send(101)
    assert send(4, end=True) == 7


@pytest.mark.parametrize("form", ["isolated", "inline"])
@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("model", ["python", "listed"])
def test_outputs_that_a_client_names_keep_no_state_back(sequence, model, strategy, form):
    """Whether the state is an output too or not."""
    send = sequence(f"{model}_{strategy}_{form}")
    answers = [send(1, start=step == 1, end=step == 3, outputs=("OUTPUT",)) for step in (1, 2, 3)]
    assert [[*answer.outputs] for answer in answers] == [["OUTPUT"]] * 3
    assert [answer["OUTPUT"].item() for answer in answers] == [1, 2, 3]


@pytest.mark.parametrize("model", ["sum_direct_8", "sum_oldest_8", "python_direct_inline", "python_oldest_isolated"])
def test_whatever_clients_do_no_state_reaches_another_sequence(sequence, clients, model):
    """Sequences that are abandoned, start again, end, or fail, at random, some at the same time."""
    random = np.random.default_rng(len(model))
    sends = [sequence(model, f"{own_id} at random") for own_id in range(6)]
    totals: list[int | None] = [None] * len(sends)
    for _ in range(12):
        chosen = random.permutation(len(sends))[: random.integers(1, len(sends) + 1)]
        steps = []
        for index in map(int, chosen):
            value, start, end = int(random.integers(1, 100)), random.random() < 0.25, random.random() < 0.25
            start = bool(start or totals[index] is None)
            expected = value + (0 if start else totals[index] or 0)
            totals[index] = None if end else expected
            steps.append((clients.submit(sends[index], value, start, bool(end)), expected))
        assert [future.result() for future, _ in steps] == [expected for _, expected in steps]


@pytest.mark.parametrize("door_name", DOORS)
def test_a_model_that_is_loaded_anew_has_forgotten(tmp_path, door_name):
    write(tmp_path, "m", SUM % (8, "", CONTROLS, ""), onnx_models.accumulator())
    value = {"INPUT": np.ones((1, 1), np.int32)}
    explicit = {"model_control_mode": "explicit", "load_model": ["m"]}
    with Server(tmp_path, http_port=0, grpc_port=0, metrics_port=0, **explicit) as server:
        ask(door_name, server, "m", value, sequence_id=1, sequence_start=True)
        write(tmp_path, "m", SUM % (4, "", CONTROLS, ""), onnx_models.accumulator())
        server.load_model("m")
        with pytest.raises(RefusedError, match="must specify the START flag"):
            ask(door_name, server, "m", value, sequence_id=1)
        assert ask(door_name, server, "m", value, sequence_id=1, sequence_start=True)["OUTPUT"].item() == 1
