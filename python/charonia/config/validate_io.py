"""Rules for inputs, outputs and their reshapes."""

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING

from charonia.config.model_tensor import shown
from charonia.config.report import Report
from charonia.config.schema import ModelConfig, ModelInput, ModelOutput

if TYPE_CHECKING:
    Io = ModelInput | ModelOutput

_TENSORRT = "tensorrt_plan"
_MOST_ELEMENTS = 2**63 - 1


def check_io(config: ModelConfig, report: Report, *, is_complete: bool) -> None:
    """`is_complete` False: what is missing may still come from the model file."""
    sides: tuple[tuple[str, Sequence[Io]], ...] = (("input", config.input), ("output", config.output))
    for kind, ios in sides:
        seen: dict[str, str] = {}
        for index, io in enumerate(ios):
            path = f"{kind}[{index}]"
            _check_name(io, kind, index, seen, report)
            if is_complete:
                _check_present(io, kind, path, report)
            _check_dims(io.dims, f"{path}.dims", f"dims of {kind} '{io.name}'", report)
            if io.HasField("reshape"):
                _check_reshape(io, kind, path, config.max_batch_size, report, is_complete=is_complete)
            _check_kinds(io, kind, path, config.platform, report)
    for index, model_input in enumerate(config.input):
        _check_format(model_input, f"input[{index}]", report)


def _check_name(io: "Io", kind: str, index: int, seen: dict[str, str], report: Report) -> None:
    path = f"{kind}[{index}]"
    if not io.name:
        report.error(path, f"{kind} number {index + 1} has no name", 'write name: "…"')
        return
    earlier = seen.setdefault(io.name, path)
    if earlier != path:
        where = report.line_of(f"{earlier}.name")
        report.error(f"{path}.name", f"two {kind}s are named '{io.name}'{where}", "give each its own name")


def _check_present(io: "Io", kind: str, path: str, report: Report) -> None:
    if io.data_type == 0:
        report.error(path, f"{kind} '{io.name}' has no data_type", "write data_type: TYPE_FP32, or what the model has")
    if not io.dims:
        report.error(path, f"{kind} '{io.name}' has no dims", "write dims: [ … ], -1 for sizes that vary")


def _check_dims(dims: Sequence[int], path: str, whose: str, report: Report) -> None:
    for index, dim in enumerate(dims):
        if dim < 1 and dim != -1:
            message = f"{whose} are {shown(dims)}, and {dim} is no size: expected 1 or more, or -1"
            report.error(f"{path}[{index}]", message, "write -1 for a size that varies")
    if prod(abs(dim) for dim in dims) > _MOST_ELEMENTS:
        message = f"{whose} are {shown(dims)}, more elements than 64 bits can count"
        report.error(path, message, "write the sizes of one request; -1 for a size that varies")


def _check_reshape(io: "Io", kind: str, path: str, max_batch_size: int, report: Report, *, is_complete: bool) -> None:
    shape, whose = io.reshape.shape, f"reshape of {kind} '{io.name}'"
    path = f"{path}.reshape"
    _check_dims(shape, f"{path}.shape", whose, report)
    if not shape and max_batch_size == 0 and is_complete:
        message = f"{whose} is empty, a scalar, which a model that does not batch (max_batch_size: 0) can't have"
        report.error(path, message, "write shape: [ 1 ], or remove the reshape")
        return
    if not io.dims or any(dim < 1 and dim != -1 for dim in (*io.dims, *shape)):
        return
    message = f"dims of {kind} '{io.name}' are {shown(io.dims)} and their reshape is {shown(shape)}"
    if -1 in io.dims:
        _check_open_reshape(io.dims, shape, path, message, report)
    elif -1 in shape or prod(io.dims) != prod(shape):
        counts = f"{prod(io.dims)} elements" if -1 not in shape else f"a fixed {prod(io.dims)} elements"
        report.error(path, f"{message}: expected the same number of elements, {counts}", "make the two agree")


def _check_open_reshape(dims: Sequence[int], shape: Sequence[int], path: str, message: str, report: Report) -> None:
    """Between the sizes that vary, both sides must have equal element counts: [2, 4, -1, 6] and [8, -1, 1, 6]."""
    left, right = _counts_between_open(dims), _counts_between_open(shape)
    if len(left) != len(right):
        text = (
            f"{message}: expected as many sizes that vary (-1) on both sides, got {len(left) - 1} and {len(right) - 1}"
        )
        report.error(path, text, "make the two agree")
    elif left != right:
        text = f"{message}: between the sizes that vary the element counts are {left} and {right}"
        report.error(path, text, "make the two agree")


def _counts_between_open(dims: Sequence[int]) -> list[int]:
    counts = [1]
    for dim in dims:
        if dim == -1:
            counts.append(1)
        else:
            counts[-1] *= dim
    return counts


def _check_kinds(io: "Io", kind: str, path: str, platform: str, report: Report) -> None:
    if io.is_shape_tensor and platform != _TENSORRT:
        message = f"{kind} '{io.name}' is a shape tensor, which only TensorRT models have"
        report.error(f"{path}.is_shape_tensor", message, "remove is_shape_tensor")
    if not io.is_non_linear_format_io:
        return
    path = f"{path}.is_non_linear_format_io"
    if platform != _TENSORRT:
        message = f"{kind} '{io.name}' has a non-linear format, which only TensorRT models have"
        report.error(path, message, "remove is_non_linear_format_io")
    elif len(io.dims) != 3:
        message = f"{kind} '{io.name}' has a non-linear format and {len(io.dims)} dims, expected 3"
        report.error(path, message, "remove is_non_linear_format_io, or write height, width and channels")


def _check_format(io: ModelInput, path: str, report: Report) -> None:
    if io.format != ModelInput.FORMAT_NONE and io.dims and len(io.dims) != 3:
        name = ModelInput.Format.Name(io.format)
        message = f"input '{io.name}' has format {name} and dims {shown(io.dims)}, expected 3 of them"
        report.error(f"{path}.format", message, "remove the format, or write height, width and channels")
