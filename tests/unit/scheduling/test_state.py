"""What the server keeps for a sequence: initial states, pairing by name, memory of its own."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

from charonia.config.schema import ModelConfig
from charonia.core.errors import BackendError, InvalidArgumentError
from charonia.core.tensor import Array, HostBuffer, Tensor, encode_bytes
from charonia.scheduling.state import SequenceState, StateStore, state_store

ONE = 'state { input_name: "in" output_name: "out" data_type: TYPE_FP32 dims: [ 2 ] %s }'


def store(states: str, more: str = "", folder: Path = Path("/nowhere")) -> StateStore:
    config = text_format.Parse(f'name: "m" {more} sequence_batching {{ {states} }}', ModelConfig())
    made = state_store(config, folder)
    assert made is not None
    return made


def arrays(sequence: SequenceState) -> dict[str, Array]:
    return {name: tensor.numpy() for name, tensor in sequence.inputs().items()}


def fp32(name: str, *values: float) -> Tensor:
    return Tensor.from_numpy(name, np.array(values, np.float32), owned=True)


def test_a_model_without_states_has_no_store() -> None:
    config = text_format.Parse('name: "m" sequence_batching { }', ModelConfig())
    assert state_store(config, Path("/nowhere")) is None


@pytest.mark.parametrize(("more", "shape"), [("", (1, 3)), ("max_batch_size: 4", (1, 1, 3))])
def test_without_initial_state_zeros_with_1_for_each_size_that_varies(more: str, shape: tuple[int, ...]) -> None:
    (tensor,) = (
        store('state { input_name: "in" output_name: "out" data_type: TYPE_INT64 dims: [ -1, 3 ] }', more)
        .new_sequence()
        .inputs()
        .values()
    )
    assert (tensor.name, tensor.datatype, tensor.shape) == ("in", "INT64", shape)
    assert not tensor.numpy().any()


def test_zeros_of_the_dims_that_the_initial_state_says() -> None:
    states = (
        'state { input_name: "in" output_name: "out" data_type: TYPE_FP32 dims: [ -1, 2 ] '
        'initial_state { name: "z" data_type: TYPE_FP32 dims: [ %d, 2 ] zero_data: true } }'
    )
    assert arrays(store(states % 3).new_sequence())["in"].shape == (3, 2)
    empty = arrays(store(states % 0).new_sequence())["in"]
    assert empty.shape == (0, 2)


def test_strings_start_empty() -> None:
    states = 'state { input_name: "in" output_name: "out" data_type: TYPE_STRING dims: [ 2 ] }'
    assert arrays(store(states).new_sequence())["in"].tolist() == [b"", b""]


@pytest.mark.parametrize(
    ("datatype", "data", "expected"),
    [
        ("TYPE_FP32", np.array([1.5, -2], np.float32).tobytes(), [1.5, -2]),
        ("TYPE_FP32", np.array([1.5, -2, 7], np.float32).tobytes(), [1.5, -2]),
        ("TYPE_STRING", encode_bytes(["a", "bc"]), [b"a", b"bc"]),
    ],
)
def test_data_of_a_file(tmp_path: Path, datatype: str, data: bytes, expected: list[Any]) -> None:
    (tmp_path / "initial_state").mkdir()
    (tmp_path / "initial_state" / "start").write_bytes(data)
    initial = f'initial_state {{ name: "f" data_type: {datatype} dims: [ 2 ] data_file: "start" }}'
    states = ONE.replace("TYPE_FP32", datatype) % initial
    assert arrays(store(states, "max_batch_size: 2", tmp_path).new_sequence())["in"].tolist() == [expected]


@pytest.mark.parametrize(
    ("datatype", "data", "said"),
    [
        ("TYPE_FP32", None, "there is no such file: its name is relative to the folder 'initial_state' of the model"),
        ("TYPE_FP32", b"1234567", "needs 8 bytes, '.*start' has 7"),
        ("TYPE_STRING", encode_bytes(["a"]), "needs 2 strings, '.*start' has 1"),
    ],
)
def test_a_file_that_does_not_do(tmp_path: Path, datatype: str, data: bytes | None, said: str) -> None:
    (tmp_path / "initial_state").mkdir()
    if data is not None:
        (tmp_path / "initial_state" / "start").write_bytes(data)
    initial = f'initial_state {{ name: "f" data_type: {datatype} dims: [ 2 ] data_file: "start" }}'
    with pytest.raises(InvalidArgumentError, match=f"initial_state of state 'in' of model 'm' .*{said}"):
        store(ONE.replace("TYPE_FP32", datatype) % initial, folder=tmp_path)


def test_dims_that_fit_no_memory() -> None:
    with pytest.raises(InvalidArgumentError, match="more than there is memory for"):
        store(f'state {{ input_name: "in" output_name: "out" data_type: TYPE_FP32 dims: [ {2**50} ] }}')


def test_an_output_is_the_next_input_and_no_answer() -> None:
    sequence = store(ONE % "").new_sequence()
    assert [tensor.name for tensor in sequence.keep([fp32("Y", 9), fp32("out", 1, 2)])] == ["Y"]
    assert arrays(sequence)["in"].tolist() == [1, 2]


def test_a_state_that_is_also_an_output_is_answered() -> None:
    sequence = store(ONE % "", 'output { name: "out" data_type: TYPE_FP32 dims: [ 2 ] }').new_sequence()
    assert [tensor.name for tensor in sequence.keep([fp32("out", 1, 2)])] == ["out"]
    assert arrays(sequence)["in"].tolist() == [1, 2]


@pytest.mark.parametrize("backwards", [False, True])
def test_states_belong_together_by_their_names(backwards: bool) -> None:
    """Neither the order of declaration nor the alphabet may pair the cache with the length's output."""
    states = [
        'state { input_name: "cache" output_name: "z_cache" data_type: TYPE_FP16 dims: [ 2 ] }',
        'state { input_name: "length" output_name: "a_length" data_type: TYPE_INT64 dims: [ 1 ] }',
    ]
    sequence = store(" ".join(reversed(states) if backwards else states)).new_sequence()
    outputs = [
        Tensor.from_numpy("a_length", np.array([7])),
        Tensor.from_numpy("z_cache", np.array([1, 2], np.float16)),
    ]
    for given in (outputs, outputs[::-1]):
        assert sequence.keep(given) == []
        assert {name: array.tolist() for name, array in arrays(sequence).items()} == {"cache": [1, 2], "length": [7]}


def test_a_state_that_the_model_leaves_out_stays() -> None:
    states = ONE % "" + 'state { input_name: "in2" output_name: "out2" data_type: TYPE_FP32 dims: [ 1 ] }'
    sequence = store(states).new_sequence()
    sequence.keep([fp32("out", 1, 2), fp32("out2", 3)])
    sequence.keep([fp32("out2", 4)])
    assert {name: array.tolist() for name, array in arrays(sequence).items()} == {"in": [1, 2], "in2": [4]}


@pytest.mark.parametrize(
    "wrong",
    [
        Tensor.from_numpy("out2", np.array([3.0])),
        fp32("out2", 1, 2, 3),
        Tensor.from_numpy("out2", np.zeros((1, 1), np.float32)),
    ],
)
def test_a_wrong_state_changes_none(wrong: Tensor) -> None:
    states = ONE % "" + 'state { input_name: "in2" output_name: "out2" data_type: TYPE_FP32 dims: [ 1 ] }'
    sequence = store(states).new_sequence()
    said = rf"model 'm' gave output 'out2' as {wrong.datatype} \[[\d, ]+\], .* state 'in2', which is FP32 \[1\]"
    with pytest.raises(BackendError, match=said):
        sequence.keep([fp32("out", 1, 2), wrong])
    assert arrays(sequence)["in"].tolist() == [0, 0]


def test_sizes_that_vary_may_change_and_growable_ones_grow_beyond_their_dims() -> None:
    grows = store(
        'state { input_name: "in" output_name: "out" data_type: TYPE_FP32 dims: [ -1 ] } '
        'state { input_name: "cache" output_name: "next" data_type: TYPE_FP32 dims: [ 2 ] '
        "use_same_buffer_for_input_output: true use_growable_memory: true }"
    ).new_sequence()
    before = grows.shapes
    grows.keep([fp32("out", 1, 2, 3), fp32("next", 1, 2, 3, 4)])
    assert (before, grows.shapes) == (((1,), (2,)), ((3,), (4,)))
    assert {name: array.shape for name, array in arrays(grows).items()} == {"in": (3,), "cache": (4,)}


def test_padding_is_zero_in_the_shapes_of_a_neighbour() -> None:
    sequence = store('state { input_name: "in" output_name: "out" data_type: TYPE_FP32 dims: [ -1 ] }').new_sequence()
    sequence.keep([fp32("out", 1, 2, 3)])
    assert {name: tensor.numpy().tolist() for name, tensor in sequence.padding().items()} == {"in": [0, 0, 0]}
    assert arrays(sequence)["in"].tolist() == [1, 2, 3]


def test_sequences_have_nothing_in_common() -> None:
    states = store(ONE % "")
    first, second = states.new_sequence(), states.new_sequence()
    first.keep([fp32("out", 1, 2)])
    assert arrays(second)["in"].tolist() == [0, 0]
    assert arrays(states.new_sequence())["in"].tolist() == [0, 0]


def test_memory_that_is_lent_is_copied() -> None:
    sequence = store(ONE % "").new_sequence()
    lent = np.array([1, 2], np.float32)
    sequence.keep([Tensor.from_numpy("out", lent)])
    lent[:] = 9
    assert arrays(sequence)["in"].tolist() == [1, 2]


def large(part: Any) -> HostBuffer:
    """The buffer that is kept of 5000 numbers in `part`."""
    sequence = store((ONE % "").replace("[ 2 ]", "[ 5000 ]")).new_sequence()
    sequence.keep([Tensor("out", "FP32", (5000,), HostBuffer(part, 20_000, owned=True))])
    kept = sequence.inputs()["in"]
    assert kept.numpy()[:2].tolist() == [2, 3]
    assert isinstance(kept.buffer, HostBuffer)
    return kept.buffer


BATCH = np.arange(10_000, dtype=np.float32)


@pytest.mark.parametrize(
    "part", [BATCH[2:5002], memoryview(BATCH)[2:5002], memoryview(BATCH.tobytes())[8:20_008]], ids=type
)
def test_a_part_of_a_batch_is_copied(part: Any) -> None:
    kept = large(part).host()
    assert kept is not part
    assert len(kept) == 20_000


@pytest.mark.parametrize("whole", [BATCH[2:5002].copy(), BATCH[2:5002].tobytes()], ids=type)
def test_large_memory_of_its_own_is_kept_without_a_copy(whole: Any) -> None:
    assert large(whole).host() is whole


def test_a_state_on_a_device_stays_there() -> None:
    class OnDevice(HostBuffer):
        device = "gpu:0"

        def host(self) -> Any:
            raise AssertionError("copied to the host")

    sequence = store(ONE % "").new_sequence()
    buffer = OnDevice(None, 8, owned=True)
    sequence.keep([Tensor("out", "FP32", (2,), buffer)])
    assert sequence.inputs()["in"].buffer is buffer
