"""The inputs and outputs of a model, as the engine reads them: plain records made once from the configuration."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from charonia.core.datatypes import BY_NUMBER

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig, ModelInput, ModelOutput

Dims = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One input of a model.

    Attributes:
        datatype: the wire name (`FP32`), "" when the configuration does not say.
        dims: as in the configuration: without the batch dimension where `max_batch_size` > 0; -1 for any size.
        reshape: the dims that the backend sees instead, None when there is no reshape; () is a scalar for each row.
        optional: a request may leave it out.
        ragged: rows of different shapes may share a batch.
        is_shape_tensor: TensorRT's shape tensors, which have no batch dimension.
    """

    name: str
    datatype: str
    dims: Dims
    reshape: Dims | None = None
    optional: bool = field(default=False, kw_only=True)
    ragged: bool = field(default=False, kw_only=True)
    is_shape_tensor: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """One output of a model; `dims` and `reshape` as for inputs (the reshape goes from the backend's dims to `dims`).

    Attributes:
        label_filename: the file of class labels in the model's folder, "" for none.
    """

    name: str
    datatype: str
    dims: Dims
    reshape: Dims | None = None
    label_filename: str = field(default="", kw_only=True)
    is_shape_tensor: bool = field(default=False, kw_only=True)


def io_specs(config: "ModelConfig") -> tuple[tuple[InputSpec, ...], tuple[OutputSpec, ...]]:
    """The inputs and outputs of `config`, in its order."""
    inputs = tuple(
        InputSpec(
            *_common(io),
            optional=io.optional,
            ragged=io.allow_ragged_batch,
            is_shape_tensor=io.is_shape_tensor,
        )
        for io in config.input
    )
    outputs = tuple(
        OutputSpec(
            *_common(io),
            label_filename=io.label_filename,
            is_shape_tensor=io.is_shape_tensor,
        )
        for io in config.output
    )
    return inputs, outputs


def state_outputs(config: "ModelConfig") -> tuple[OutputSpec, ...]:
    """What the model makes beside its outputs: the next states of a sequence."""
    outputs = {output.name for output in config.output}
    states = config.sequence_batching.state
    return tuple(
        OutputSpec(state.output_name, wire_name(state.data_type), tuple(state.dims))
        for state in states
        if state.output_name not in outputs
    )


def _common(io: "ModelInput | ModelOutput") -> tuple[str, str, Dims, Dims | None]:
    reshape = tuple(io.reshape.shape) if io.HasField("reshape") else None
    return io.name, wire_name(io.data_type), tuple(io.dims), reshape


def wire_name(data_type: int) -> str:
    """`FP32` for TYPE_FP32; "" for TYPE_INVALID and numbers without a datatype."""
    datatype = BY_NUMBER.get(data_type)
    return datatype.name if datatype is not None else ""
