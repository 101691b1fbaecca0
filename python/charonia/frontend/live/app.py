"""The paths of the live page: the page, its style and script, and the state that the script asks for each second."""

from collections.abc import Callable
from dataclasses import asdict
from importlib.resources import files
from typing import Any

from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from charonia.control.live import Live
from charonia.core.log import Log
from charonia.frontend.control.app import RoutedApp
from charonia.frontend.control.http_answers import Ask, Endpoint, NotFound, StatusOf, json_answer
from charonia.frontend.generate.request import MAX_VALUES

PREFIX = "/live"
STATE = f"{PREFIX}/state"

# Nothing but the page's own files runs or is loaded, whatever a model is called; and no other page may frame it.
_HEADERS = {
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "no-cache",
}
_FILES = {
    PREFIX: ("page.html", "text/html; charset=utf-8"),
    f"{PREFIX}/page.css": ("page.css", "text/css; charset=utf-8"),
    f"{PREFIX}/page.js": ("page.js", "text/javascript; charset=utf-8"),
    f"{PREFIX}/numbers.js": ("numbers.js", "text/javascript; charset=utf-8"),
    f"{PREFIX}/try.js": ("try.js", "text/javascript; charset=utf-8"),
    f"{PREFIX}/asking.js": ("asking.js", "text/javascript; charset=utf-8"),
    f"{PREFIX}/tensors.js": ("tensors.js", "text/javascript; charset=utf-8"),
}

Load = Callable[[], dict[str, Any]]
"""What the wire has in hand now, by name."""


class LiveApp(RoutedApp):
    """An ASGI app for everything under `/live`.

    Args:
        load: gives what the wire counts.
        try_it: whether the page offers to send requests; it does so only where the HTTP port serves it.
        try_port: for the page at the metrics port: where the page with the forms is; None where there is none.
    """

    def __init__(
        self, live: Live, load: Load, status_of: StatusOf, log: Log, try_it: bool = False, try_port: int | None = None
    ) -> None:
        self._live = live
        self._load = load
        self._more = {"try_it": try_it, "try_port": try_port, "most_values": MAX_VALUES}
        routes = [Route(path, Endpoint({"GET": _file(*file)}, status_of, log)) for path, file in _FILES.items()]
        routes.append(Route(STATE, Endpoint({"GET": self._state}, status_of, log)))
        super().__init__(routes, NotFound())

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await super().__call__({**scope, "root_path": ""}, receive, send)  # its routes are whole paths

    async def _state(self, ask: Ask) -> Response:
        answer = json_answer({**asdict(self._live.read()), "wire": self._load(), **self._more})
        answer.headers["cache-control"] = "no-store"
        return answer


def _file(name: str, content_type: str) -> Callable[[Ask], Any]:
    content = files(__package__).joinpath(name).read_bytes()

    async def answer(ask: Ask) -> Response:
        return Response(content, headers={"content-type": content_type, **_HEADERS})

    return answer
