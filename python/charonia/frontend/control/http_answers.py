"""HTTP answers in the protocol's form: JSON bodies, errors as {"error": sentence}, methods checked."""

import traceback
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from charonia.control.versions import is_digits
from charonia.core.errors import CharoniaError
from charonia.core.log import Log
from charonia.core.text import printable, shown
from charonia.frontend.control.json_answers import dump

NOT_FOUND = 404
METHOD_NOT_ALLOWED = 405
INTERNAL_SERVER_ERROR = 500


@dataclass(frozen=True, slots=True)
class Ask:
    """What a handler sees of a request: path parameters, percent-decoded, the body, and headers as ASGI has them."""

    path: Mapping[str, str]
    body: bytes
    headers: Sequence[tuple[bytes, bytes]] = ()

    def __getitem__(self, name: str) -> str:
        """The path parameter, "" when the route does not have it."""
        return self.path.get(name, "")

    def header(self, name: str) -> str:
        """The first of this name, which is in lower case; "" without one."""
        wanted = name.encode()
        return next((value.decode("latin-1") for known, value in self.headers if known == wanted), "")


Action = Callable[[Ask], Awaitable[Response]]
StatusOf = Callable[[int], int]
"""The HTTP status of a canonical code: `charonia._wire.http_status`."""


def json_answer(value: object, status: int = 200) -> Response:
    return json_text(dump(value), status)


def json_text(text: bytes | str, status: int = 200) -> Response:
    """`text` is JSON already."""
    return Response(text, status, media_type="application/json")


def empty_answer(status: int = 200) -> Response:
    return Response(b"", status, headers={"content-type": "text/plain"})


def empty_json_answer() -> Response:
    """What load and unload answer: nothing, under the content type that Triton gives it."""
    return Response(b"", headers={"content-type": "application/json"})


def error_answer(status: int, sentence: str) -> Response:
    return json_answer({"error": sentence}, status)


class NotFound:
    """The ASGI app of paths that do not exist.

    Args:
        why: what to say of them; None for what was asked.
    """

    def __init__(self, why: str | None = None) -> None:
        self._why = why

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        why = self._why or f"there is no {_shown(scope['method'])} {_shown(scope['path'])}"
        await _not_found(why)(scope, receive, send)


def _not_found(why: str) -> Response:
    return error_answer(NOT_FOUND, f"Not Found: {why}")


def _shown(text: str) -> str:
    return printable(shown(text))


class Endpoint:
    """The ASGI app of one path: picks the action of the method, turns errors into answers. HEAD is answered as GET."""

    def __init__(self, actions: Mapping[str, Action], status_of: StatusOf, log: Log) -> None:
        self._actions = dict(actions)
        self.methods = tuple(sorted(actions))
        if "GET" in self._actions:
            self._actions["HEAD"] = self._actions["GET"]
        self._allow = ", ".join(sorted(self._actions))
        self._status_of = status_of
        self._log = log

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        response = await self._answer(scope, receive)
        await response(scope, receive, send)

    async def _answer(self, scope: Scope, receive: Receive) -> Response:
        parameters: dict[str, str] = scope.get("path_params", {})
        version = parameters.get("version", "1")
        if not is_digits(version):  # as sent: then it is a path that does not exist
            return _not_found(f"'{_shown(version)}' is no version number, which has digits only")
        action = self._actions.get(scope["method"])
        if action is None:
            response = error_answer(METHOD_NOT_ALLOWED, "Method Not Allowed")
            response.headers["allow"] = self._allow
            return response
        try:
            body = await _body(receive)
            path = {name: decoded(value) for name, value in parameters.items()}
            return await action(Ask(path, body, scope["headers"]))
        except CharoniaError as error:
            return error_answer(self._status_of(error.code), str(error))
        except Exception as error:
            where = f"{scope['method']} {scope['path']}"
            self._log.error(f"{where} failed by a fault of the server: {traceback.format_exc()}")
            return error_answer(INTERNAL_SERVER_ERROR, f"{where} failed by a fault of the server: {error!r}")


async def _body(receive: Receive) -> bytes:
    """The whole body. Not by starlette's Request, which takes ten times as long for a body that comes in one piece."""
    pieces: list[bytes] = []
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def decoded(segment: str) -> str:
    """Percent-decoded. Bytes that are no UTF-8 stay apart from all others, so that they name nothing that exists."""
    return unquote_to_bytes(segment).decode("utf-8", "surrogateescape")
