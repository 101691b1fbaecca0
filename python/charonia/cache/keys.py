"""When two requests are the same: by a digest of everything that a model may answer by."""

from collections.abc import Sequence
from hashlib import blake2b

from charonia.backends.joining import host_bytes
from charonia.core.request import InferRequest
from charonia.core.tensor import Tensor

# Of 160 bits: with 2**40 entries the chance that any two collide is below 2**-80, also when somebody tries to.
_DIGEST_BYTES = 20


def request_key(identity: bytes, request: InferRequest) -> bytes | None:
    """The key of a checked request; None when an input is in the memory of a device.

    Not in it: id, priority and time-out. The order of inputs and of requested outputs does not matter.

    Args:
        identity: of the model version that serves, see `ModelVersion.cache_identity`.
    """
    inputs = request.inputs
    tensors = list(inputs.values()) if len(inputs) == 1 else [inputs[name] for name in sorted(inputs)]
    for tensor in tensors:
        if tensor.buffer.device != "cpu":
            return None
    digest = blake2b(_head(identity, request, tensors), digest_size=_DIGEST_BYTES)
    for tensor in tensors:
        digest.update(host_bytes(tensor.buffer.host()))  # from 2 KiB on without the GIL
    return digest.digest()


def _head(identity: bytes, request: InferRequest, tensors: Sequence[Tensor]) -> bytes:
    """All but the contents. `repr` tells names, types and lengths apart, so no two different heads are equal."""
    parameters = sorted(request.parameters.items()) if request.parameters else ()
    head = repr(
        (
            identity,
            [(tensor.name, tensor.datatype, tensor.shape, tensor.buffer.nbytes) for tensor in tensors],
            sorted(request.requested_outputs),
            parameters,
            request.correlation_id,
            request.flags,
        )
    )
    return head.encode()


def own_inputs(request: InferRequest) -> None:
    """Copy inputs that somebody may still write to (regions of shared memory, arrays of a caller in this process): else
    one input could be looked up and another one be executed, and its answer be given to others."""
    if all(tensor.buffer.owned for tensor in request.inputs.values()):
        return
    request.inputs = {name: _owned(tensor) for name, tensor in request.inputs.items()}


def _owned(tensor: Tensor) -> Tensor:
    return tensor.to_owned() if tensor.buffer.device == "cpu" else tensor
