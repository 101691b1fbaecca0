"""Implicit state: tensors that the server keeps for a sequence between its requests, so that the model keeps none.

What a model gives as the output of a state is its input with the sequence's next request. Input and output belong
together by the names that the configuration gives them, never by their order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from charonia.config.io import Dims, wire_name
from charonia.core.errors import BackendError
from charonia.core.given_data import file_data, zero_data, zeros_like
from charonia.core.tensor import Buffer, HostBuffer, Tensor

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig, ModelSequenceBatching

    State = ModelSequenceBatching.State

INITIAL_STATE_FOLDER = "initial_state"
# Copying a kilobyte takes 2 µs and gives the backend its memory back; finding out whose it is takes more than 1 µs.
_COPIED_BYTES = 8 * 1024


@dataclass(frozen=True, slots=True)
class StateSpec:
    """One state of a model.

    Attributes:
        shape: with a batch dimension of 1 where the model batches; -1 for any size.
        is_growable: the model may give it any shape.
    """

    input_name: str
    output_name: str
    datatype: str
    shape: Dims
    is_growable: bool = False

    def accepts(self, tensor: Tensor) -> bool:
        return tensor.datatype == self.datatype and (
            self.is_growable
            or tensor.shape == self.shape
            or (len(tensor.shape) == len(self.shape) and all(map(_fits, tensor.shape, self.shape)))
        )


def _fits(size: int, wanted: int) -> bool:
    return wanted in (-1, size)


class StateStore:
    """The states of one model version, and what each of them is at the start of a sequence.

    Attributes:
        initial: by input name; shared by all sequences, since nobody writes to a tensor.
        by_output: the states by output name.
        hidden: state outputs that are no outputs of the model, which clients never see.
    """

    def __init__(self, config: "ModelConfig", model_dir: Path) -> None:
        """
        Raises:
            InvalidArgumentError: data of an initial state that is missing, too short, or too large for the memory.
        """
        self.model = config.name
        batched = config.max_batch_size > 0
        states = config.sequence_batching.state
        self.by_output = {state.output_name: _spec(state, batched) for state in states}
        self.initial = {state.input_name: initial_state(config, state, model_dir) for state in states}
        self.hidden = frozenset(self.by_output) - {output.name for output in config.output}

    def new_sequence(self) -> "SequenceState":
        return SequenceState(self)


def state_store(config: "ModelConfig", model_dir: Path) -> StateStore | None:
    """None where the model has no states. Raises as StateStore."""
    return StateStore(config, model_dir) if config.sequence_batching.state else None


class SequenceState:
    """The state of one sequence; implements `core.request.StateTurn` for each of its requests.

    A sequence that starts again gets another one: what a late answer to a request of before keeps, nobody reads.
    """

    __slots__ = ("_store", "_tensors")

    def __init__(self, store: StateStore) -> None:
        self._store = store
        self._tensors: Mapping[str, Tensor] = store.initial

    def inputs(self) -> Mapping[str, Tensor]:
        """The state as inputs of the next request, by name."""
        return self._tensors

    def padding(self) -> Mapping[str, Tensor]:
        """Zeros of the same shapes: inputs of what stands for an empty slot beside this sequence."""
        return {name: zeros_like(tensor) for name, tensor in self._tensors.items()}

    @property
    def shapes(self) -> tuple[Dims, ...]:
        """Requests may share a batch where these are equal."""
        return tuple(tensor.shape for tensor in self._tensors.values())

    def keep(self, outputs: Sequence[Tensor]) -> Sequence[Tensor]:
        """All states that are among `outputs`, or none when one is wrong; a state that is not there stays as it was.

        Raises:
            BackendError: a state of another datatype or shape than configured.
        """
        store = self._store
        changed: dict[str, Tensor] = {}
        for tensor in outputs:
            spec = store.by_output.get(tensor.name)
            if spec is not None:
                if not spec.accepts(tensor):
                    raise _wrong(store.model, spec, tensor)
                changed[spec.input_name] = _kept(spec.input_name, tensor)
        if changed:
            self._tensors = {**self._tensors, **changed}
        return [tensor for tensor in outputs if tensor.name not in store.hidden] if store.hidden else outputs


def _spec(state: "State", batched: bool) -> StateSpec:
    shape = (1, *state.dims) if batched else tuple(state.dims)
    return StateSpec(state.input_name, state.output_name, wire_name(state.data_type), shape, state.use_growable_memory)


def initial_state(config: "ModelConfig", state: "State", model_dir: Path) -> Tensor:
    """What a state is at the start: as configured, else zeros with 1 for each size that varies (Triton's shape).

    Raises:
        InvalidArgumentError: data that is missing, too short, or too large for the memory.
    """
    who = f"initial_state of state '{state.input_name}' of model '{config.name}'"
    datatype = wire_name(state.data_type)
    given = state.initial_state[0] if state.initial_state else None
    dims = tuple(given.dims) if given is not None else tuple(1 if dim == -1 else dim for dim in state.dims)
    if given is not None and given.WhichOneof("state_data") == "data_file":
        data = file_data(who, model_dir / INITIAL_STATE_FOLDER, given.data_file, datatype, dims)
    else:
        data = zero_data(who, datatype, dims)
    shape = (1, *dims) if config.max_batch_size > 0 else dims
    return Tensor(state.input_name, datatype, shape, HostBuffer(data, len(data), owned=True))


def _kept(name: str, tensor: Tensor) -> Tensor:
    """The tensor as an input. Its memory is kept where it is the tensor's alone, on whatever device.

    A part of a batch's output is copied: a sequence that sends nothing for an hour must not hold the whole of it.
    """
    buffer = tensor.buffer
    if not buffer.owned or (buffer.device == "cpu" and _is_better_copied(buffer)):
        buffer = tensor.copied().buffer
    return Tensor(name, tensor.datatype, tensor.shape, buffer)


def _is_better_copied(buffer: Buffer) -> bool:
    return buffer.nbytes <= _COPIED_BYTES or _memory_behind(buffer.host()) > buffer.nbytes


def _memory_behind(host: Any) -> int:
    """How many bytes a view keeps alive, as far as Python can see."""
    nbytes = 0
    while isinstance(host, (np.ndarray, memoryview)):
        nbytes = host.nbytes
        host = host.base if isinstance(host, np.ndarray) else host.obj
    try:
        return memoryview(host).nbytes
    except TypeError:  # the memory is the last array's own, or a library's
        return nbytes


def _wrong(model: str, spec: StateSpec, got: Tensor) -> BackendError:
    return BackendError(
        f"model '{model}' gave output '{spec.output_name}' as {got.datatype} {list(got.shape)}, but it is the next "
        f"state '{spec.input_name}', which is {spec.datatype} {list(spec.shape)}: the sequence keeps the state it had"
    )
