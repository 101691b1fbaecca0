"""Filling a configuration from what the model file says. What Triton's ONNX Runtime backend does, and a little more:
single missing datatypes and dims are filled too, and a `max_batch_size: 0` that was written is respected."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from charonia.config.contradict import check_against_model as check_against_model
from charonia.config.defaults import normalize
from charonia.config.findings import Completion, Finding
from charonia.config.given_elsewhere import names_given_elsewhere
from charonia.config.model_tensor import ModelTensor as ModelTensor
from charonia.config.model_tensor import fits, shown
from charonia.config.places import NO_PLACES, Places
from charonia.config.schema import ModelConfig, ModelInput, ModelOutput, ModelSequenceBatching
from charonia.core.datatypes import DATATYPES

if TYPE_CHECKING:
    Io = ModelInput | ModelOutput

DEFAULT_MAX_BATCH_SIZE = 4
"""Triton's, when `--backend-config=default-max-batch-size` does not say another."""


@dataclass(frozen=True, slots=True)
class Completed:
    """A configuration after merging: a new message, what was filled in, and what contradicts the model."""

    config: ModelConfig
    completions: tuple[Completion, ...] = ()
    findings: tuple[Finding, ...] = ()


def complete_from_model(
    config: ModelConfig,
    inputs: Sequence[ModelTensor],
    outputs: Sequence[ModelTensor],
    *,
    model_file: str,
    default_max_batch_size: int = DEFAULT_MAX_BATCH_SIZE,
    places: Places = NO_PLACES,
) -> Completed:
    """Fill what `config` leaves open (inputs, outputs, datatypes, dims, max_batch_size, dynamic batching) and check it.

    A configuration whose inputs and outputs are all there is only checked: its max_batch_size and its scheduling stay
    as they are.

    Args:
        config: with defaults applied; it is not changed.
        model_file: the name for messages, as `model.onnx`.
        default_max_batch_size: for models whose every first dimension is open, when the configuration says nothing.
        places: where the fields of `config` were written; a written `max_batch_size: 0` is respected.
    """
    completed = ModelConfig()
    completed.CopyFrom(config)
    done: list[Completion] = []
    if leaves_open(config):
        used = _used_outputs(config, outputs)
        if config.max_batch_size == 0 and "max_batch_size" not in places:
            _choose_max_batch_size(completed, inputs, used, default_max_batch_size, done)
        if completed.max_batch_size > 1 and all(tensor.can_batch for tensor in (*inputs, *used)):
            _add_dynamic_batching(completed, done)
        _Filler(completed, model_file, done).fill(inputs, outputs)
        done += normalize(completed)
    findings = check_against_model(completed, inputs, outputs, model_file=model_file, places=places)
    return Completed(completed, tuple(done), tuple(findings))


def leaves_open(config: ModelConfig) -> bool:
    """Whether there is something for the model file to fill in: a side without tensors, a missing datatype or dims."""
    if not (config.input or config.batch_input) or not config.output:
        return True
    ios: list[Io | ModelSequenceBatching.State] = [*config.input, *config.output, *config.sequence_batching.state]
    return any(io.data_type == 0 or not io.dims for io in ios)


def _used_outputs(config: ModelConfig, outputs: Sequence[ModelTensor]) -> Sequence[ModelTensor]:
    """Those that the configuration lists, all when it lists none."""
    listed = {io.name for io in config.output}
    return [tensor for tensor in outputs if not listed or tensor.name in listed]


def _choose_max_batch_size(
    config: ModelConfig,
    inputs: Sequence[ModelTensor],
    outputs: Sequence[ModelTensor],
    default: int,
    done: list[Completion],
) -> None:
    if default < 1 or not all(tensor.can_batch for tensor in (*inputs, *outputs)):
        return
    if _dims_hold_the_batch(config.input, inputs) or _dims_hold_the_batch(config.output, outputs):
        return
    config.max_batch_size = default
    reason = "every first dimension of the model is open, and default-max-batch-size says so"
    done.append(Completion("max_batch_size", str(default), reason))


def _dims_hold_the_batch(ios: "Sequence[Io]", tensors: Sequence[ModelTensor]) -> bool:
    """Whether dims that were given are whole shapes of the model, so that they leave no room for a batch dimension."""
    by_name = {tensor.name: tensor for tensor in tensors}
    return any(io.name in by_name and io.dims and fits(io.dims, by_name[io.name].dims) for io in ios)


def _add_dynamic_batching(config: ModelConfig, done: list[Completion]) -> None:
    if config.WhichOneof("scheduling_choice") is None:
        config.dynamic_batching.SetInParent()
        done.append(Completion("dynamic_batching", "{ }", "the model batches and no scheduling is set"))


class _Filler:
    """Fills inputs and outputs of one configuration."""

    def __init__(self, config: ModelConfig, model_file: str, done: list[Completion]) -> None:
        self._config = config
        self._reason = f"from {model_file}"
        self._done = done

    def fill(self, inputs: Sequence[ModelTensor], outputs: Sequence[ModelTensor]) -> None:
        given_inputs, given_outputs = names_given_elsewhere(self._config)
        if self._config.input or self._config.batch_input:
            self._fill_gaps("input", self._config.input, inputs)
        else:
            for index, tensor in enumerate(each for each in inputs if each.name not in given_inputs):
                self._fill_new(f"input[{index}]", self._config.input.add(optional=tensor.optional), tensor)
        if self._config.output:
            self._fill_gaps("output", self._config.output, outputs)
        else:
            for index, tensor in enumerate(each for each in outputs if each.name not in given_outputs):
                self._fill_new(f"output[{index}]", self._config.output.add(), tensor)
        self._fill_states({tensor.name: tensor for tensor in inputs})

    def _fill_states(self, inputs: Mapping[str, ModelTensor]) -> None:
        for index, state in enumerate(self._config.sequence_batching.state):
            tensor, path = inputs.get(state.input_name), f"sequence_batching.state[{index}]"
            if tensor is None:
                continue
            if state.data_type == 0 and tensor.datatype in DATATYPES:
                state.data_type = DATATYPES[tensor.datatype].number  # type: ignore[assignment]
                self._done.append(Completion(f"{path}.data_type", tensor.written_type, self._reason))
            dims = tensor.dims[1:] if self._config.max_batch_size > 0 else tensor.dims
            if dims and not state.dims:
                state.dims.extend(dims)
                self._done.append(Completion(f"{path}.dims", shown(dims), self._reason))

    def _fill_new(self, path: str, io: "Io", tensor: ModelTensor) -> None:
        io.name = tensor.name
        self._set_type_and_dims(io, tensor)
        text = f'{{ name: "{io.name}" data_type: {tensor.written_type} dims: {shown(io.dims)} }}'
        self._done.append(Completion(path, text, self._reason))

    def _fill_gaps(self, kind: str, ios: "Sequence[Io]", tensors: Sequence[ModelTensor]) -> None:
        by_name = {tensor.name: tensor for tensor in tensors}
        for index, io in enumerate(ios):
            tensor = by_name.get(io.name)
            if tensor is None:
                continue
            had_type, had_dims = io.data_type != 0, bool(io.dims)
            self._set_type_and_dims(io, tensor)
            if not had_type:
                self._done.append(Completion(f"{kind}[{index}].data_type", tensor.written_type, self._reason))
            if not had_dims:
                self._done.append(Completion(f"{kind}[{index}].dims", shown(io.dims), self._reason))

    def _set_type_and_dims(self, io: "Io", tensor: ModelTensor) -> None:
        if io.data_type == 0 and tensor.datatype in DATATYPES:
            io.data_type = DATATYPES[tensor.datatype].number  # type: ignore[assignment]
        if io.dims:
            return
        is_batched = self._config.max_batch_size > 0
        io.dims.extend(tensor.dims[1:] if is_batched else tensor.dims)
        if not io.dims:
            # A scalar (for each row) is written as [1]; with a batch dimension the model gets it without.
            io.dims.append(1)
            if is_batched and not io.HasField("reshape"):
                io.reshape.SetInParent()
