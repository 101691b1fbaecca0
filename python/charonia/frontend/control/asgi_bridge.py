"""Runs an ASGI app for an HTTP call of the wire.

Bodies stream out chunk by chunk, each at once, and no faster than the client reads: `send` waits. The request's body is
whole already. A client that goes away is reported both ways that ASGI knows: `receive` gives `http.disconnect`, and
`send` raises OSError. Apps get no lifespan events.
"""

import asyncio
import time
import traceback
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

from starlette.types import ASGIApp, Message, Scope

from charonia.core.log import Log
from charonia.core.text import shown

if TYPE_CHECKING:
    from charonia._wire import HttpCall

Headers = list[tuple[bytes, bytes]]

_FRAMING = (b"connection", b"transfer-encoding")
"""Headers that belong to the wire."""


class AsgiBridge:
    """Answers HTTP calls by the app of their listener. All of it runs on the event loop's thread.

    Args:
        apps: by listener name, "http" and "metrics".
    """

    def __init__(self, apps: Mapping[str, ASGIApp], log: Log) -> None:
        self._apps = dict(apps)
        self._log = log
        self._exchanges: dict[int, _Exchange] = {}

    async def serve(self, call: "HttpCall") -> None:
        """Answer one call. Never raises, but for being cancelled."""
        exchange, began = _Exchange(call), time.monotonic()
        self._exchanges[call.key] = exchange
        try:
            await self._apps[call.listener](exchange.scope(), exchange.receive, exchange.send)
        except ClientGone:
            pass
        except Exception:
            self._log.error(f"the app failed at {call.method} {call.path}: {traceback.format_exc()}")
        finally:
            self._exchanges.pop(call.key)
            exchange.close()
            if self._log.highest_verbosity:
                took_us = int((time.monotonic() - began) * 1e6)
                self._log.verbose(f"HTTP {call.method} {shown(call.path)}: {exchange.status} after {took_us} us")

    def told(self, keys: Iterable[int]) -> None:
        """The wire has news of these calls: the client has gone, or has caught up."""
        for key in keys:
            exchange = self._exchanges.get(key)
            if exchange is not None:
                exchange.told()


class ClientGone(OSError):
    """What `send` raises when nobody reads any more."""


class _Exchange:
    """One call, between the wire's methods and ASGI's messages."""

    def __init__(self, call: "HttpCall") -> None:
        self._call = call
        self._body_given = False
        self._head: tuple[int, Headers] | None = None
        self._started = False
        self._ended = False
        self._over = False
        self._changed = asyncio.Event()

    @property
    def status(self) -> int:
        """Of the answer; 0 while it has none."""
        return self._head[0] if self._head is not None else 0

    def scope(self) -> Scope:
        call = self._call
        return {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "http_version": call.http_version,
            "method": call.method,
            "scheme": "https" if call.secure else "http",
            "path": unquote(call.path),
            "raw_path": call.path.encode("latin-1", "replace"),
            "query_string": call.query.encode("latin-1", "replace"),
            "root_path": "",
            "headers": call.headers,
            "client": call.client,
            "server": None,
        }

    async def receive(self) -> Message:
        """The whole body first, then the end of the connection or of the answer, whichever comes."""
        if not self._body_given:
            self._body_given = True
            return {"type": "http.request", "body": self._call.body, "more_body": False}
        await self._until(lambda: self._over or self._call.is_disconnected)
        return {"type": "http.disconnect"}

    async def _until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            self._changed.clear()
            await self._changed.wait()

    def told(self) -> None:
        self._changed.set()

    def _end(self) -> None:
        self._over = True
        self._changed.set()

    async def send(self, message: Message) -> None:
        """Returns when the client has read enough for more to follow.

        Raises:
            ClientGone: the client has.
            RuntimeError: the messages come in a wrong order.
        """
        kind = message["type"]
        if kind == "http.response.start" and self._head is None:
            headers = [(name.lower(), value) for name, value in message.get("headers", ())]
            self._head = message["status"], [pair for pair in headers if pair[0] not in _FRAMING]
        elif kind == "http.response.body" and self._head is not None and not self._ended:
            self._send_body(message.get("body", b""), message.get("more_body", False))
            await self._until(lambda: self._over or self._call.has_room)
        else:
            raise RuntimeError(f"unexpected ASGI message '{kind}'")

    def _send_body(self, body: bytes, more: bool) -> None:
        if not self._started:
            self._start(None if more else len(body))
        self._ended = not more
        if not more:
            self._end()
        elif not body:
            return
        chunk = b"" if self._call.method == "HEAD" else bytes(body)
        if not self._call.write(chunk, more) and more:
            self._end()
            raise ClientGone("the client has closed the connection")

    def _start(self, length: int | None) -> None:
        """The head goes out with the first piece of the body, when its length may be known."""
        assert self._head is not None
        status, headers = self._head
        self._started = True
        if length is not None and all(name != b"content-length" for name, _ in headers):
            headers.append((b"content-length", b"%d" % length))
        self._call.start(status, headers)

    def close(self) -> None:
        """The app has returned or raised. No answer becomes a 500; half of one is left for the wire to break off."""
        self._end()
        if self._started or self._call.is_disconnected:
            return
        body = b'{"error":"the server failed to answer this request"}'
        self._head = 500, [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
        self._call.start(*self._head)
        self._call.write(b"" if self._call.method == "HEAD" else body, False)
