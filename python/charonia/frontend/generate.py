"""The generate extension: JSON in, JSON or a stream of server-sent events out."""

import asyncio
import time
from collections import deque
from collections.abc import Sequence

from starlette.types import Receive, Scope, Send

from charonia.control.versions import parse_version
from charonia.core.errors import CharoniaError, InternalError, InvalidArgumentError, UnavailableError
from charonia.core.log import Log
from charonia.core.protocols import Submitter
from charonia.core.reply_queue import ReplyQueue
from charonia.core.request import InferRequest, Reply
from charonia.engine.engine import ModelDirectory
from charonia.frontend.generate_answer import AnswerWriter, error_json
from charonia.frontend.generate_request import Limits, Target, read_body
from charonia.frontend.http_answers import Ask, StatusOf
from charonia.frontend.large_work import LargeWork
from charonia.frontend.parameters import split_parameters
from charonia.frontend.request_log import RequestLog

_OK = 200
_BAD_REQUEST = 400
_LINE_ENDS = (("\x85".encode(), b"\\u0085"), ("\u2028".encode(), b"\\u2028"), ("\u2029".encode(), b"\\u2029"))


class Generate:
    """Makes requests of generate calls. What is refused before it is queued raises; the rest is up to the answer.

    Args:
        status_of: the HTTP status of a canonical code.
    """

    def __init__(
        self, submitter: Submitter, directory: ModelDirectory, status_of: StatusOf, log: Log, limits: Limits
    ) -> None:
        self._submitter = submitter
        self._directory = directory
        self._status_of = status_of
        self._limits = limits
        self._requests = RequestLog(log)
        self._large = LargeWork()

    async def one(self, ask: Ask) -> "OneAnswer":
        """`generate`. Raises CharoniaError."""
        conversation = await self._begin(ask)
        writer = AnswerWriter(conversation.request, self._limits.input_bytes, holds_back=False)
        return OneAnswer(conversation, self._status_of, writer, self._large)

    async def stream(self, ask: Ask) -> "EventStream":
        """`generate_stream`. Raises CharoniaError."""
        conversation = await self._begin(ask)
        writer = AnswerWriter(conversation.request, self._limits.input_bytes, holds_back=True)
        return EventStream(conversation, self._status_of, writer, self._large)

    async def _begin(self, ask: Ask) -> "Conversation":
        arrival_ns = time.monotonic_ns()
        try:
            conversation = await self._large.run(len(ask.body), lambda: self._conversation(ask, arrival_ns))
        except CharoniaError as error:
            if self._requests.on:
                self._requests.refused("http", ask["model"], "", error.code, arrival_ns)
            raise
        if self._requests.on:
            self._requests.arrived("http", conversation.request)
        self._submitter.submit(conversation.request)
        conversation.raise_refusal()
        return conversation

    def _conversation(self, ask: Ask, arrival_ns: int) -> "Conversation":
        name, version = ask["model"], parse_version(ask["version"], ask["model"])
        model = self._directory.find(name, version)
        target = Target(name, model.inputs, model.config.max_batch_size > 0)
        body = read_body(ask.body, target, self._limits)
        options = split_parameters(body.parameters)
        replies = _LoggedReplies(self._requests)
        request = InferRequest(
            name,
            version,
            body.inputs,
            replies,
            arrival_ns,
            body.id,
            parameters=options.others,
            priority=options.priority,
            timeout_us=options.timeout_us,
            correlation_id=options.correlation_id,
            flags=options.flags,
            takes_stream=True,
            flow=replies,
        )
        return Conversation(request, replies)


class _LoggedReplies(ReplyQueue):
    def __init__(self, requests: RequestLog) -> None:
        super().__init__()
        self._requests = requests

    def send(self, replies: Sequence[Reply]) -> None:
        if self._requests.on:
            self._requests.answered(replies)
        super().send(replies)


class Conversation:
    """One request, and the replies to it for one reader on the event loop's thread."""

    def __init__(self, request: InferRequest, replies: ReplyQueue) -> None:
        self.request = request
        self._replies = replies
        self._taken: deque[Reply] = deque()
        self._over = False

    def raise_refusal(self) -> None:
        """Raise what the request was refused with before it was queued. Called once, after `submit`."""
        self._taken.extend(self._replies.take())
        if self._taken and (error := self._taken[0].error) is not None and not self.request.queue_start_ns:
            raise error

    async def next(self) -> Reply | None:
        """The next reply; None after the final one, and once it is cancelled."""
        if not self._taken and not self._over:
            self._taken.extend(await self._replies.wait_async())
        if not self._taken:
            return None
        reply = self._taken.popleft()
        self._over = reply.final
        return reply

    def cancel(self) -> None:
        """Nobody reads any more."""
        self._over = True
        self._taken.clear()
        if not self.request.settled and not self.request.cancelled:
            self.request.cancel()
        self._replies.close()


class _Answer:
    """An ASGI app that answers one call. A client that leaves cancels the request at once."""

    content_type: bytes

    def __init__(self, conversation: Conversation, status_of: StatusOf, writer: AnswerWriter, large: LargeWork) -> None:
        self._conversation = conversation
        self._status_of = status_of
        self._writer = writer
        self._large = large

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.ensure_future(_disconnect(receive))
        gone.add_done_callback(lambda _: self._conversation.cancel())
        try:
            await self._send(send)
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            gone.cancel()
            self._conversation.cancel()

    async def _send(self, send: Send) -> None:
        raise NotImplementedError

    async def _start(self, send: Send, status: int, first: bytes) -> None:
        headers = [(b"content-type", self.content_type)]
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await _piece(send, first)

    async def _written(self, reply: Reply) -> bytes:
        nbytes = sum(tensor.buffer.nbytes for tensor in reply.outputs)
        return await self._large.run(nbytes, lambda: self._writer.response(reply))

    def _status(self, error: CharoniaError) -> int:
        """An error of the model is 400 whatever its code, as in Triton; what the server itself can't do has its own."""
        own = isinstance(error, UnavailableError) or type(error) is InternalError
        return self._status_of(error.code) if own else _BAD_REQUEST


class OneAnswer(_Answer):
    """Answers with the only response, or with an error when there are none or several."""

    content_type = b"application/json"

    async def _send(self, send: Send) -> None:
        try:
            status, body = _OK, await self._only_response()
        except CharoniaError as error:
            status, body = self._status(error), error_json(error)
        await self._start(send, status, body)

    async def _only_response(self) -> bytes:
        body = None
        while (reply := await self._conversation.next()) is not None:
            if reply.error is not None:
                raise reply.error
            if reply.has_response:
                if body is not None:
                    raise self._not_one("more")
                body = await self._written(reply)
        if body is None:
            raise self._not_one("none")
        return body

    def _not_one(self, came: str) -> CharoniaError:
        return InvalidArgumentError(
            "generate expects model to produce exactly 1 response, use generate stream for model that generates "
            f"various number of responses; model '{self._conversation.request.model_name}' gave {came}"
        )


class EventStream(_Answer):
    """Answers with an event for each response, as they come; the status is that of the first."""

    content_type = b"text/event-stream; charset=utf-8"

    async def _send(self, send: Send) -> None:
        started = False
        while (reply := await self._conversation.next()) is not None:
            for status, text in await self._events(reply):
                event = b"data: %b\n\n" % _in_one_line(text)
                await (_piece(send, event) if started else self._start(send, status, event))
                started = True
        if not started:
            await self._start(send, _OK, b"")

    async def _events(self, reply: Reply) -> list[tuple[int, bytes]]:
        """(status of the answer if this is its first event, the event's JSON) of each event."""
        if reply.error is not None:
            return [(self._status(reply.error), error_json(reply.error))]
        try:
            events = [(_OK, await self._written(reply))] if reply.has_response else []
        except CharoniaError as error:
            self._conversation.cancel()  # it can't be written
            return [(self._status(error), error_json(error))]
        if reply.final and (rest := self._writer.rest()) is not None:
            events.append((_OK, rest))
        return events


def _in_one_line(text: bytes) -> bytes:
    """JSON without the characters that end a line for some readers of events, though not by the standard."""
    for character, escaped in _LINE_ENDS:
        text = text.replace(character, escaped)
    return text


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _piece(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})
