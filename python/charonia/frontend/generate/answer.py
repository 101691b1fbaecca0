"""Responses as the JSON of generate: outputs by name, one element as it is and several as a flat list."""

from codecs import IncrementalDecoder, getincrementaldecoder
from collections.abc import Mapping
from math import prod
from typing import Any

from charonia.core.datatypes import BYTES
from charonia.core.errors import CharoniaError, InvalidArgumentError
from charonia.core.request import NO_PARAMETERS, InferRequest, Reply
from charonia.core.tensor import Tensor, split_bytes
from charonia.frontend.control.json_answers import dump

_Decoder = getincrementaldecoder("utf-8")


class AnswerWriter:
    """Writes the responses to a request. What is no text becomes U+FFFD, so that every answer is JSON.

    Args:
        max_bytes: of one output; a larger one is an error.
        holds_back: a character whose bytes are spread over two responses is held back until it is whole, for each
            element of each output.
    """

    def __init__(self, max_bytes: int, *, holds_back: bool) -> None:
        self._max_bytes = max_bytes
        self._holds_back = holds_back
        self._decoders: dict[str, list[IncrementalDecoder]] = {}

    def response(self, reply: Reply) -> bytes:
        """The JSON object of a response.

        Raises:
            InvalidArgumentError: an output is too large for JSON.
        """
        outputs = {each.name: self._value(reply, each) for each in reply.outputs}
        return _object(reply.request, reply.parameters, outputs)

    def rest(self, request: InferRequest) -> bytes | None:
        """What is left of outputs that ended inside a character, as a last response; None where none did."""
        left = {name: [each.decode(b"", True) for each in decoders] for name, decoders in self._decoders.items()}
        texts = {name: _plain(each) for name, each in left.items() if any(each)}
        return _object(request, NO_PARAMETERS, texts) if texts else None

    def _value(self, reply: Reply, tensor: Tensor) -> Any:
        if tensor.buffer.nbytes > self._max_bytes:
            raise InvalidArgumentError(
                f"output '{tensor.name}' of model '{reply.request.model_name}' has {tensor.buffer.nbytes} bytes, at "
                f"most {self._max_bytes} can be answered as JSON: ask for it by infer, in binary"
            )
        return _plain(self._texts(tensor, reply.final) if tensor.datatype == BYTES else _numbers(tensor))

    def _texts(self, tensor: Tensor, final: bool) -> list[str]:
        elements = split_bytes(tensor.buffer.host())
        if not self._holds_back:
            return [each.decode("utf-8", "replace") for each in elements]
        decoders = self._decoders.setdefault(tensor.name, [])
        decoders += [_Decoder("replace") for _ in range(len(elements) - len(decoders))]
        return [decoder.decode(each, final) for decoder, each in zip(decoders, elements, strict=False)]


def error_json(error: CharoniaError | str) -> bytes:
    return dump({"error": str(error)})


def _object(request: InferRequest, parameters: Mapping[str, Any], outputs: Mapping[str, Any]) -> bytes:
    own = {"model_name": request.model_name, "model_version": request.version}
    if request.id:
        own["id"] = request.id
    return dump(dict(sorted({**parameters, **outputs, **own}.items())))


def _numbers(tensor: Tensor) -> list[Any]:
    if not prod(tensor.shape):
        return []
    values = tensor.numpy().ravel()
    numbers: list[Any] = (values.astype("float32") if values.dtype.kind == "V" else values).tolist()
    return numbers


def _plain(elements: list[Any]) -> Any:
    return elements[0] if len(elements) == 1 else elements
