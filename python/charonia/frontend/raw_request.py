"""Raw binary requests: the whole body is the one input of the model, named and shaped by its config."""

from math import prod
from typing import TYPE_CHECKING

from charonia.core.datatypes import BYTES, DATATYPES
from charonia.core.errors import InvalidArgumentError
from charonia.core.tensor import Buffer, HostBuffer, Tensor, encode_bytes

if TYPE_CHECKING:
    from charonia.engine.model import ModelVersion


def raw_input(model: "ModelVersion", body: Buffer) -> Tensor:
    """The input tensor that `body` stands for; one item where the model batches; one open dim is computed.

    Raises:
        InvalidArgumentError: the model has several inputs, several open dims, or room for more than one text; or the
            size does not fit.
    """
    if len(model.inputs) != 1:
        raise InvalidArgumentError(
            "Raw request must only have 1 input (found 1) to be deduced but got "
            f"{len(model.inputs)} inputs in '{model.name}' model configuration"
        )
    spec = model.inputs[0]
    if spec.datatype == BYTES and tuple(spec.dims) != (1,):
        raise InvalidArgumentError(
            f"For BYTE datatype raw input '{spec.name}', the model must have input shape [1], which takes it as one "
            f"text; model '{model.name}' has {list(spec.dims)}"
        )
    if spec.dims.count(-1) > 1:
        raise InvalidArgumentError(
            f"the shape of the raw input '{spec.name}' of model '{model.name}' can't be deduced: "
            f"its dims {list(spec.dims)} are open in more than one place"
        )
    batch = (1,) if model.config.max_batch_size > 0 else ()
    if spec.datatype == BYTES:
        data = encode_bytes([bytes(memoryview(body.host()))])
        return Tensor(spec.name, BYTES, (*batch, 1), HostBuffer(data, len(data), owned=True))
    item_bytes = DATATYPES[spec.datatype].item_size_bytes
    fixed_bytes = item_bytes * prod(dim for dim in spec.dims if dim != -1)
    fits = body.nbytes % fixed_bytes == 0 if -1 in spec.dims else body.nbytes == fixed_bytes
    if not fits:
        raise InvalidArgumentError(
            f"input byte size mismatch for input '{spec.name}' for model '{model.name}'. "
            f"Expected {'a multiple of ' if -1 in spec.dims else ''}{fixed_bytes}, got {body.nbytes}"
        )
    dims = tuple(body.nbytes // fixed_bytes if dim == -1 else dim for dim in spec.dims)
    return Tensor(spec.name, spec.datatype, batch + dims, body)
