"""Models whose inputs are sequence controls and states: what is computed, answered and kept."""

from typing import Any

import numpy as np
import onnx_models
import pytest

from charonia.backends.batch import ExecutingBatch
from charonia.core.clock import MonotonicClock
from charonia.core.request import InferRequest, Reply
from charonia.core.tensor import Array, Tensor
from charonia.scheduling.state import SequenceState, state_store
from charonia.testing.requests import KeptReplies

CONTROLS = """
control_input { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } }
control_input { name: "READY" control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } }
"""
STATE = 'state { input_name: "STATE" output_name: "NEXT" data_type: TYPE_INT32 dims: [ 1 ] }'
SEQUENCES = f"sequence_batching {{ {CONTROLS} {STATE} }}"
CACHE = """
sequence_batching {
  state { input_name: "cache_last_channel" output_name: "cache_last_channel_next" data_type: TYPE_FP16 dims: [ -1 ]
    initial_state { name: "empty" data_type: TYPE_FP16 dims: [ 0 ] zero_data: true } }
  state { input_name: "cache_last_channel_len" output_name: "cache_last_channel_len_next" }
}
"""


class Sequences:
    """Plays the scheduler: gives each request its sequence's state, and releases its turn when it is settled."""

    def __init__(self, runner: Any, tmp_path: Any) -> None:
        self._runner = runner
        store = state_store(runner.config, tmp_path / "m")
        assert store is not None
        self.new = store.new_sequence

    def run(
        self, *rows: tuple[SequenceState, dict[str, Array]], requested: tuple[str, ...] = ()
    ) -> list[dict[str, Array]]:
        replies = self.replies(*rows, requested=requested)
        assert [reply.error for reply in replies] == [None] * len(rows)
        return [{tensor.name: tensor.numpy() for tensor in reply.outputs} for reply in replies]

    def replies(self, *rows: tuple[SequenceState, dict[str, Array]], requested: tuple[str, ...] = ()) -> list[Reply]:
        channel = KeptReplies()
        requests = []
        for state, arrays in rows:
            inputs = {name: Tensor.from_numpy(name, array, owned=True) for name, array in arrays.items()} | dict(
                state.inputs()
            )
            requests.append(InferRequest("m", -1, inputs, channel, 0, requested_outputs=requested))
            requests[-1].turn = Turn(state)
        batch = ExecutingBatch(requests, self._runner.arranger, None, MonotonicClock())
        self._runner.instance.start(batch)
        batch.close(None, "m")
        return [channel.of(request) for request in requests]


class Turn:
    def __init__(self, state: SequenceState) -> None:
        self.state = state

    def release(self) -> None: ...
    def reschedule(self, request: InferRequest) -> None: ...


def row(value: int, start: int = 0, shape: tuple[int, ...] = (1, 1)) -> dict[str, Array]:
    values = {"INPUT": value, "START": start, "READY": 1}
    return {name: np.full(shape, number, np.int32) for name, number in values.items()}


@pytest.mark.parametrize("io", ["", "max_batch_size: 4"])
def test_a_configuration_without_inputs_gets_those_that_clients_send(serve: Any, io: str) -> None:
    config = serve(onnx_models.accumulator(), f"{io} {SEQUENCES}").config
    assert config.max_batch_size == 4
    assert [each.name for each in config.input] == ["INPUT"]
    assert [each.name for each in config.output] == ["OUTPUT"]
    assert not config.HasField("dynamic_batching")


def test_sums_of_sequences_side_by_side_and_alone(serve: Any, tmp_path: Any) -> None:
    sequences = Sequences(serve(onnx_models.accumulator(), SEQUENCES), tmp_path)
    first, second = sequences.new(), sequences.new()
    assert [made["OUTPUT"].item() for made in sequences.run((first, row(1, 1)), (second, row(10, 1)))] == [1, 10]
    assert sequences.run((first, row(2)))[0]["OUTPUT"].item() == 3
    made = sequences.run((second, row(20)), (first, row(3)))
    assert [list(each) for each in made] == [["OUTPUT"], ["OUTPUT"]]
    assert [each["OUTPUT"].item() for each in made] == [30, 6]


def test_a_model_that_does_not_batch(serve: Any, tmp_path: Any) -> None:
    io = "data_type: TYPE_INT32 dims: 1"
    config = f'max_batch_size: 0 input {{ name: "INPUT" {io} }} output {{ name: "OUTPUT" {io} }} {SEQUENCES}'
    sequences = Sequences(serve(onnx_models.accumulator(first=[]), config), tmp_path)
    state = sequences.new()
    assert [sequences.run((state, row(n, n == 1, (1,))))[0]["OUTPUT"].item() for n in (1, 2, 3)] == [1, 3, 6]


@pytest.mark.parametrize("count", [1, 2])
def test_the_state_is_computed_whatever_was_requested(serve: Any, tmp_path: Any, count: int) -> None:
    more = (
        'output { name: "OUTPUT" data_type: TYPE_INT32 dims: 1 } output { name: "NEXT" data_type: TYPE_INT32 dims: 1 }'
    )
    sequences = Sequences(serve(onnx_models.accumulator(), f"max_batch_size: 4 {more} {SEQUENCES}"), tmp_path)
    states = [sequences.new() for _ in range(count)]
    for requested, total in ((("OUTPUT",), 1), (("NEXT",), 2), ((), 3)):
        answers = sequences.run(*((state, row(1)) for state in states), requested=requested)
        assert len(answers) == count
        for made in answers:
            assert {name: array.item() for name, array in made.items()} == dict.fromkeys(
                requested or ("OUTPUT", "NEXT"), total
            )


@pytest.mark.parametrize("count", [1, 3])
def test_two_states_feed_the_inputs_beside_them(serve: Any, tmp_path: Any, count: int) -> None:
    config = f'max_batch_size: 4 output {{ name: "seen" data_type: TYPE_FP32 dims: 1 }} {CACHE}'
    sequences = Sequences(serve(onnx_models.streaming_cache(), config), tmp_path)
    states = [sequences.new() for _ in range(count)]
    for number in (1, 2, 3):
        made = sequences.run(*((state, {"audio": np.full((1, 1), number, np.float16)}) for state in states))
        assert [each["seen"].item() for each in made] == [sum(range(number + 1))] * count
    for state in states:
        kept = {name: tensor.numpy().tolist() for name, tensor in state.inputs().items()}
        assert kept == {"cache_last_channel": [[1, 2, 3]], "cache_last_channel_len": [[3]]}


@pytest.mark.parametrize("datatype", onnx_models.ONNX_TYPES)
@pytest.mark.parametrize("count", [1, 3])
def test_states_of_every_datatype(serve: Any, tmp_path: Any, datatype: str, count: int) -> None:
    states = 'sequence_batching { state { input_name: "STATE" output_name: "NEXT" } }'
    sequences = Sequences(serve(onnx_models.delay(datatype), f"max_batch_size: 4 {states}"), tmp_path)
    held = [sequences.new() for _ in range(count)]
    before = [state.inputs()["STATE"].numpy() for state in held]
    for step in range(3):
        sent = [onnx_models.sample(datatype, (1, 1 + step), 10 * step + number) for number in range(count)]
        if datatype == "BYTES":  # ONNX Runtime wants text
            sent = [np.array([[item.hex().encode() for item in array[0]]], object) for array in sent]
        made = sequences.run(*((state, {"INPUT": array}) for state, array in zip(held, sent, strict=True)))
        for each, last in zip(made, before, strict=True):
            assert each["OUTPUT"].dtype == last.dtype
            assert each["OUTPUT"].tolist() == last.tolist()
        before = sent


def test_a_state_of_a_batch_does_not_keep_the_batch(serve: Any, tmp_path: Any) -> None:
    sequences = Sequences(serve(onnx_models.accumulator(), SEQUENCES), tmp_path)
    states = [sequences.new() for _ in range(4)]
    sequences.run(*((state, row(1)) for state in states))
    assert [len(state.inputs()["STATE"].buffer.host()) for state in states] == [4] * 4


def test_a_wrong_state_fails_its_request_and_keeps_the_old_one(serve: Any, tmp_path: Any) -> None:
    """The model's file leaves the size open, and the configuration does not."""
    config = 'max_batch_size: 4 output { name: "seen" data_type: TYPE_FP32 dims: 1 } ' + CACHE.replace(
        "dims: [ -1 ]", "dims: [ 1 ]"
    ).replace("dims: [ 0 ]", "dims: [ 1 ]")
    sequences = Sequences(serve(onnx_models.streaming_cache(), config), tmp_path)
    state, other = sequences.new(), sequences.new()
    audio = {"audio": np.ones((1, 1), np.float16)}
    for rows in ([(state, audio)], [(state, audio), (other, audio)]):
        for reply in sequences.replies(*rows):
            assert "model 'm' gave output 'cache_last_channel_next' as FP16 [1, 2]" in str(reply.error)
            assert "which is FP16 [1, 1]" in str(reply.error)
    assert state.inputs()["cache_last_channel_len"].numpy().tolist() == [[0]]
