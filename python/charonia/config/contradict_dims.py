"""Dims of one input or output against the model file's: the usual mistake is the batch dimension."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from charonia.config.model_tensor import OPEN, ModelTensor, fits, shown
from charonia.config.places import Places
from charonia.config.report import Report
from charonia.config.schema import ModelConfig, ModelInput, ModelOutput

if TYPE_CHECKING:
    Io = ModelInput | ModelOutput


def check_dims(
    config: ModelConfig,
    kind: str,
    path: str,
    io: "Io",
    tensor: ModelTensor,
    model_file: str,
    places: Places,
    report: Report,
) -> None:
    """Report dims (or the reshape, which is what the model sees) that don't fit the model's.

    Args:
        kind: "input" or "output"; path: where `io` is, as `input[0]`.
    """
    if not io.dims or config.max_batch_size < 0:  # whether the dims are whole shapes isn't known then
        return
    field = "reshape" if io.HasField("reshape") else "dims"
    dims = tuple(io.reshape.shape if field == "reshape" else io.dims)
    is_batched = config.max_batch_size > 0
    if _fit(dims, tensor, is_batched):
        return
    whose = f"{field} of {kind} '{io.name}' {'are' if field == 'dims' else 'is'} {shown(dims)}"
    right = as_field(field, tensor.dims[1:] if is_batched else tensor.dims)
    if not tensor.dims:
        message, remedy = f"{whose}, but {model_file} has a scalar", f"write {as_field('dims', (1,))}"
    elif is_batched and len(dims) == len(tensor.dims) and fits(dims[1:], tensor.dims[1:]):
        message = (
            f"{whose} with the batch dimension, but max_batch_size is {config.max_batch_size}"
            f"{report.line_of('max_batch_size')}, which adds it: together {shown((OPEN, *dims))}, "
            f"and {model_file} has {shown(tensor.dims)}"
        )
        remedy = f"write {right}; or, to keep the dims and serve without batching, max_batch_size: 0"
    elif not is_batched and fits(dims, tensor.dims[1:]):
        size = f"0{report.line_of('max_batch_size')}" if "max_batch_size" in places else "not set"
        message = (
            f"{whose} without the batch dimension, but max_batch_size is {size}, "
            f"so they must be the whole shape: {model_file} has {shown(tensor.dims)}"
        )
        batching = "max_batch_size: 8 (or another limit above 0), or " if tensor.can_batch else ""
        remedy = f"write {batching}{right}"
    else:
        together = f", with the batch dimension {shown((OPEN, *dims))}" if is_batched else ""
        message = f"{whose}{together}, but {model_file} has {shown(tensor.dims)}{_differs(dims, tensor, is_batched)}"
        remedy = f"write {right}"
    report.error(f"{path}.{field}", message, remedy)


def _fit(dims: tuple[int, ...], tensor: ModelTensor, is_batched: bool) -> bool:
    if not tensor.dims:
        return all(dim == 1 for dim in dims)
    return fits((OPEN, *dims) if is_batched else dims, tensor.dims)


def _differs(dims: tuple[int, ...], tensor: ModelTensor, is_batched: bool) -> str:
    """Which dimension it is, or that their number is wrong."""
    full, model = ((OPEN, *dims) if is_batched else dims), tensor.dims
    if len(full) != len(model):
        return f" ({len(model)} dimensions, not {len(full)})"
    wrong = next(index for index, dim in enumerate(full) if model[index] not in (OPEN, dim))
    return f" (dimension {wrong} is {model[wrong]}, not {full[wrong]})"


def as_field(field: str, dims: Sequence[int]) -> str:
    """`dims: [3, 4]` or `reshape { shape: [3, 4] }`; a scalar for each row is dims [1] with an empty reshape."""
    if field == "reshape":
        return f"reshape {{ shape: {shown(dims)} }}"
    return f"dims: {shown(dims)}" if dims else "dims: [1] reshape { shape: [] }"
