"""The inputs and outputs of a session, as the model declares them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from charonia.config.complete import ModelTensor
from charonia.core.errors import UnsupportedError

_DATATYPES = {
    "tensor(bool)": "BOOL",
    "tensor(uint8)": "UINT8",
    "tensor(uint16)": "UINT16",
    "tensor(uint32)": "UINT32",
    "tensor(uint64)": "UINT64",
    "tensor(int8)": "INT8",
    "tensor(int16)": "INT16",
    "tensor(int32)": "INT32",
    "tensor(int64)": "INT64",
    "tensor(float16)": "FP16",
    "tensor(float)": "FP32",
    "tensor(double)": "FP64",
    "tensor(string)": "BYTES",
    "tensor(bfloat16)": "BF16",
}


@dataclass(frozen=True, slots=True)
class Signature:
    """Inputs that have a default in the model are optional and come last."""

    inputs: tuple[ModelTensor, ...]
    outputs: tuple[ModelTensor, ...]


def signature_of(session: Any, model: str, used: Sequence[str] = ()) -> Signature:
    """What `session` takes and gives.

    Args:
        used: names of the tensors that the configuration lists. Where it lists outputs, others may have types that
            can't be served: those are left out.

    Raises:
        UnsupportedError: a tensor has a type that is no KServe datatype (a sequence, a map, a float of 8 bits).
    """
    inputs = [_tensor(node, "input", model) for node in session.get_inputs()]
    optional = [_tensor(node, "input", model, optional=True) for node in _overridable(session, used)]
    nodes = session.get_outputs()
    listed = {node.name for node in nodes if node.name in used}
    outputs = [
        _tensor(node, "output", model) for node in nodes if not listed or node.name in listed or node.type in _DATATYPES
    ]
    return Signature((*inputs, *optional), tuple(outputs))


def _overridable(session: Any, used: Sequence[str]) -> list[Any]:
    """Old exporters list every weight as an input with a default, so only those that the configuration names count."""
    return [node for node in session.get_overridable_initializers() if node.name in used]


def _tensor(node: Any, what: str, model: str, *, optional: bool = False) -> ModelTensor:
    datatype = _DATATYPES.get(node.type)
    if datatype is None:
        raise UnsupportedError(
            f"model '{model}': {what} '{node.name}' has type {node.type}, which no datatype of the protocol can carry: "
            f"export the model with plain tensors{_zipmap(node.type)}"
        )
    return ModelTensor(node.name, datatype, tuple(_dim(dim) for dim in node.shape), optional)


def _dim(dim: object) -> int:
    """Named and unknown dimensions are open."""
    return dim if isinstance(dim, int) and dim >= 0 else -1


def _zipmap(onnx_type: str) -> str:
    return " (scikit-learn: convert with options={'zipmap': False})" if onnx_type.startswith("seq(map") else ""
