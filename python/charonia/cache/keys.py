"""When two requests are the same: by a digest of everything that a model may answer by."""

from collections.abc import Sequence
from hashlib import blake2b

from charonia.backends.joining import host_bytes
from charonia.core.request import InferRequest
from charonia.core.tensor import Tensor

# Of 160 bits: with 2**40 entries the chance that any two collide is below 2**-80, also when somebody tries to.
_DIGEST_BYTES = 20
# Enough for every shape of a model's usual requests; a client that makes up shapes only costs a little time.
_REMEMBERED_HEADS = 1024


class KeyMaker:
    """Makes the keys of one model version's requests.

    Args:
        outputs: the names of all that the model has; () where it is not known before it answers.
    """

    def __init__(self, outputs: Sequence[str] = ()) -> None:
        self._every = sorted(outputs)
        self._heads: dict[tuple[object, ...], bytes] = {}

    def key(self, identity: bytes, request: InferRequest) -> bytes | None:
        """The key of a checked request; None when an input is in the memory of a device.

        Not in it: id, priority and time-out. The order of inputs and of requested outputs does not matter, nor whether
        a request for all outputs names them.

        Args:
            identity: of the model version that serves, see `ModelVersion.cache_identity`.
        """
        inputs = request.inputs
        tensors = list(inputs.values()) if len(inputs) == 1 else [inputs[name] for name in sorted(inputs)]
        for tensor in tensors:
            if tensor.buffer.device != "cpu":
                return None
        digest = blake2b(self._head(identity, request, tensors), digest_size=_DIGEST_BYTES)
        for tensor in tensors:
            digest.update(host_bytes(tensor.buffer.host()))  # from 2 KiB on without the GIL
        return digest.digest()

    def _head(self, identity: bytes, request: InferRequest, tensors: Sequence[Tensor]) -> bytes:
        """All but the contents. The usual request is of a form that came before, which saves a third of the key."""
        forms = [(tensor.name, tensor.datatype, tensor.shape, tensor.buffer.nbytes) for tensor in tensors]
        if request.parameters or request.correlation_id or request.flags:
            parameters = sorted(request.parameters.items())
            requested = self._wanted(request)
            return _told(identity, forms, requested, parameters, request.correlation_id, request.flags)
        seen = (identity, request.requested_outputs, *forms)
        head = self._heads.get(seen)
        if head is None:
            if len(self._heads) >= _REMEMBERED_HEADS:
                self._heads.clear()
            head = self._heads[seen] = _told(identity, forms, self._wanted(request), [], 0, 0)
        return head

    def _wanted(self, request: InferRequest) -> Sequence[str]:
        """In one order; () for all."""
        wanted = sorted(request.requested_outputs)
        return [] if wanted == self._every else wanted


def _told(
    identity: bytes,
    forms: Sequence[object],
    requested: Sequence[str],
    parameters: Sequence[object],
    correlation_id: int | str,
    flags: int,
) -> bytes:
    """`repr` tells names, types and lengths apart, so no two different requests have the same."""
    return repr((identity, forms, requested, parameters, correlation_id, flags)).encode()


def own_inputs(request: InferRequest) -> None:
    """Copy inputs that somebody may still write to (regions of shared memory, arrays of a caller in this process): else
    one input could be looked up and another one be executed, and its answer be given to others."""
    if all(tensor.buffer.owned for tensor in request.inputs.values()):
        return
    request.inputs = {name: _owned(tensor) for name, tensor in request.inputs.items()}


def _owned(tensor: Tensor) -> Tensor:
    return tensor.to_owned() if tensor.buffer.device == "cpu" else tensor
