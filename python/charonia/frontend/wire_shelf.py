"""Answers that the wire gives by itself."""

from collections.abc import Sequence

from charonia._wire import AnswerShelf, InferCall, KeptAnswer, WireServer
from charonia.core.request import Reply
from charonia.frontend.wire_channel import answer_of


class WireShelf:
    """Implements `core.shelf.Shelf`.

    Attributes:
        shelf: what is published with its model version.
    """

    def __init__(self, wire: WireServer) -> None:
        self._wire = wire
        self.shelf = AnswerShelf()

    def keep(self, reply: Reply) -> KeptAnswer | None:
        if not isinstance(reply.request.token, InferCall):
            return None
        return self._wire.keep(self.shelf, answer_of(reply))

    def take_given(self) -> Sequence[tuple[int, int, int]]:
        return self.shelf.take_given()
