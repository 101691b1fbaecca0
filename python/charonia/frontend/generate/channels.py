"""Replies to a generate request on their way to its HTTP call."""

import threading
import traceback
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from charonia.core.errors import CharoniaError, InternalError, InvalidArgumentError, UnavailableError
from charonia.core.log import Log
from charonia.core.request import Reply
from charonia.frontend.control.http_answers import StatusOf
from charonia.frontend.generate.answer import AnswerWriter, error_json
from charonia.frontend.request_log import RequestLog

if TYPE_CHECKING:
    from charonia._wire import HttpCall

_JSON = (b"content-type", b"application/json")
_EVENTS = (b"content-type", b"text/event-stream; charset=utf-8")
_OK = 200
_BAD_REQUEST = 400
_LINE_ENDS = (("\x85".encode(), b"\\u0085"), ("\u2028".encode(), b"\\u2028"), ("\u2029".encode(), b"\\u2029"))


class GenerateChannel:
    """The ReplyChannel of one generate request.

    Args:
        max_bytes: of one output.
        requests: told the replies while it is on.
        forget: told the call's key once it is answered.
    """

    holds_back = False

    def __init__(
        self,
        call: "HttpCall",
        status_of: StatusOf,
        max_bytes: int,
        requests: RequestLog,
        log: Log,
        forget: Callable[[int], None],
    ) -> None:
        self._call = call
        self._status_of = status_of
        self._writer = AnswerWriter(max_bytes, holds_back=self.holds_back)
        self._requests = requests
        self._log = log
        self._forget = forget
        self._lock = threading.Lock()  # replies of one request may come by several threads
        self._over = False

    def send(self, replies: Sequence[Reply]) -> None:
        if self._requests.on:
            self._requests.answered(replies)
        for reply in replies:
            with self._lock:
                failed = not self._over and not self._taken(reply)
            if failed and not reply.final:
                reply.request.cancel()

    def _taken(self, reply: Reply) -> bool:
        """Write it; whether the request goes on after it, if it has more to say."""
        try:
            if reply.error is not None and _is_refusal(reply):
                self._refuse(reply.error)
            else:
                self._take(reply)
        except CharoniaError as error:  # what was sent can't be answered
            self._fail(self._status(error), error)
        except Exception as error:
            self._log.error(f"{self._call.path} failed by a fault of the server: {traceback.format_exc()}")
            failure = InternalError(f"the server failed to write this answer: {error!r}")
            self._fail(self._status(failure), failure)
        return not self._over or reply.final

    def _refuse(self, error: CharoniaError) -> None:
        plain_answer(self._call, self._status_of(error.code), error_json(error))
        self._end()

    def _take(self, reply: Reply) -> None:
        raise NotImplementedError

    def _fail(self, status: int, error: CharoniaError) -> None:
        raise NotImplementedError

    def _status(self, error: CharoniaError) -> int:
        """An error of the model is 400 whatever its code, as in Triton; what the server itself can't do has its own."""
        own = isinstance(error, UnavailableError) or type(error) is InternalError
        return self._status_of(error.code) if own else _BAD_REQUEST

    def _end(self) -> None:
        self._over = True
        self._forget(self._call.key)


class OneAnswer(GenerateChannel):
    """Answers with the only response, or with an error when there are none or several."""

    _body: bytes | None = None

    def _take(self, reply: Reply) -> None:
        if reply.error is not None:
            raise reply.error
        if reply.has_response:
            if self._body is not None:
                raise _not_one(reply, "more")
            self._body = self._writer.response(reply)
        if reply.final:
            if self._body is None:
                raise _not_one(reply, "none")
            self._answer(_OK, self._body)

    def _fail(self, status: int, error: CharoniaError) -> None:
        self._answer(status, error_json(error))

    def _answer(self, status: int, body: bytes) -> None:
        self._call.start(status, (_JSON,))
        self._call.write(body, False)
        self._end()


class EventStream(GenerateChannel):
    """Answers with an event for each response, as they come; the status is that of the first."""

    holds_back = True
    _started = False

    def _take(self, reply: Reply) -> None:
        if reply.error is not None:
            self._event(self._status(reply.error), error_json(reply.error))
        elif reply.has_response:
            self._event(_OK, self._writer.response(reply))
        if reply.final and not self._over:
            rest = self._writer.rest(reply.request) if reply.error is None else None
            if rest is not None:
                self._event(_OK, rest)
            self._close()

    def _fail(self, status: int, error: CharoniaError) -> None:
        self._event(status, error_json(error))
        self._close()

    def _event(self, status: int, text: bytes) -> None:
        self._start(status)
        self._call.write(b"data: %b\n\n" % _in_one_line(text), True)

    def _start(self, status: int) -> None:
        if not self._started:
            self._started = True
            self._call.start(status, (_EVENTS,))

    def _close(self) -> None:
        self._start(_OK)
        self._call.write(b"", False)
        self._end()


def plain_answer(call: "HttpCall", status: int, body: bytes) -> None:
    """JSON in one piece: what was refused before there was a stream."""
    call.start(status, (_JSON, (b"content-length", b"%d" % len(body))))
    call.write(body, False)


def _is_refusal(reply: Reply) -> bool:
    return not reply.request.queue_start_ns


def _not_one(reply: Reply, came: str) -> CharoniaError:
    return InvalidArgumentError(
        "generate expects model to produce exactly 1 response, use generate stream for model that generates "
        f"various number of responses; model '{reply.request.model_name}' gave {came}"
    )


def _in_one_line(text: bytes) -> bytes:
    """JSON without the characters that end a line for some readers of events, though not by the standard."""
    for character, escaped in _LINE_ENDS:
        text = text.replace(character, escaped)
    return text
