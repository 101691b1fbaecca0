"""Outputs that a client wants in shared memory, written there on their way to the wire."""

from collections.abc import Sequence

from charonia.core.errors import CharoniaError, InternalError, InvalidArgumentError
from charonia.core.request import Reply, ReplyChannel
from charonia.core.tensor import Tensor
from charonia.core.unread import UnreadBuffer
from charonia.frontend.regions import Place, RegionTensors


class RegionChannel:
    """The channel of one request that has tensors in regions.

    Each response is written as it comes, one over the other. The claims on the regions are given back before the final
    reply goes on: who has it finds them free.

    Args:
        channel: where the replies go on, with outputs that have no bytes where those lie in a region.
    """

    def __init__(self, channel: ReplyChannel, tensors: RegionTensors) -> None:
        self._channel = channel
        self._tensors = tensors

    def send(self, replies: Sequence[Reply]) -> None:
        placed = [self._placed(reply) for reply in replies]
        if any(reply.final for reply in replies):
            self._tensors.release()
        self._channel.send(placed)

    def _placed(self, reply: Reply) -> Reply:
        if reply.error is not None or not reply.has_response:
            return reply
        try:
            outputs = self._outputs(reply)
        except CharoniaError as error:
            return Reply(reply.request, error=error, final=reply.final)
        except Exception as error:
            model = reply.request.model_name
            failed = InternalError(f"outputs of model '{model}' can't be written to shared memory: {error!r}")
            return Reply(reply.request, error=failed, final=reply.final)
        return Reply(reply.request, outputs, None, reply.parameters, reply.final)

    def _outputs(self, reply: Reply) -> list[Tensor]:
        for tensor in reply.outputs:
            if type(tensor.buffer) is UnreadBuffer:
                tensor.buffer.host()  # an input that comes back: what is wrong with it must be known now
        fault = self._tensors.faults.first
        if fault is not None:
            raise InvalidArgumentError(f"an input for model '{reply.request.model_name}' could not be read: {fault}")
        places = self._tensors.outputs
        # First all checks: a response is written as a whole or not at all.
        for tensor in reply.outputs:
            if tensor.name in places:
                _check_room(reply.request.model_name, tensor, places[tensor.name])
        return [_written(tensor, places[tensor.name]) if tensor.name in places else tensor for tensor in reply.outputs]


class _Elsewhere:
    """The Buffer of an output that the client finds in a region."""

    __slots__ = ("nbytes",)
    device = "cpu"
    owned = True

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def host(self) -> None:
        """Nothing: the answer only describes the output."""


def _check_room(model: str, tensor: Tensor, place: Place) -> None:
    if tensor.buffer.nbytes > place.nbytes:
        raise InvalidArgumentError(
            f"shared memory size specified with the request for output '{tensor.name}' ({place.nbytes} bytes) should "
            f"be at least {tensor.buffer.nbytes} bytes to hold the results of model '{model}'"
        )


def _written(tensor: Tensor, place: Place) -> Tensor:
    place.region.write(place.offset, tensor.buffer)
    return Tensor(tensor.name, tensor.datatype, tensor.shape, _Elsewhere(tensor.buffer.nbytes))
