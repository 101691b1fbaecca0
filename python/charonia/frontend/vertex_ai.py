"""What comes by Vertex AI's predict route and is no inference: calls of the HTTP API, named by a header.

Vertex AI passes on two paths only. A header says which other one is meant; those that only read are open to all who may
predict, those that change something are not.
"""

import re

from starlette.types import ASGIApp, Receive, Scope, Send

from charonia.core.text import printable, shown
from charonia.frontend.control.http_answers import METHOD_NOT_ALLOWED, NotFound, error_answer
from charonia.frontend.gateways import VertexAiSettings

REDIRECT = b"x-vertex-ai-triton-redirect"

_METRICS = "/metrics"
_READ = re.compile(
    r"/v2(?:/health/(?:live|ready))?"
    r"|/v2/models/[^/]+(?:/versions/[0-9]+)?(?:/(?:ready|config|stats))?"
    r"|/v2/(?:system|cuda)sharedmemory(?:/region/[^/]+)?/status"
)
_INDEX = re.compile(r"/v2/repository(?:/[^/]+)?/index")
_CLOSED = re.compile(r"/v2/(?:repository|systemsharedmemory|cudasharedmemory)(?:/.*)?")


class VertexAiApp:
    """An ASGI app; the wire has answered health checks and inferences, and has looked at keys.

    Args:
        http: serves the paths of the HTTP API.
        metrics: serves `/metrics`.
    """

    def __init__(self, settings: VertexAiSettings, http: ASGIApp, metrics: ASGIApp) -> None:
        self._settings = settings
        self._http = http
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["path"] != self._settings.predict:
            await NotFound()(scope, receive, send)
            return
        redirect = next((value for name, value in scope["headers"] if name == REDIRECT), None)
        if redirect is None:
            await error_answer(503, "no model is ready for predictions yet")(scope, receive, send)
        elif scope["method"] != "POST":
            await error_answer(METHOD_NOT_ALLOWED, "Method Not Allowed")(scope, receive, send)
        else:
            await self._redirected(f"/{redirect.decode('latin-1')}", scope, receive, send)

    async def _redirected(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        raw_path = path.encode("latin-1")
        if path == _METRICS:
            await self._metrics({**scope, "method": "GET", "path": path, "raw_path": raw_path}, receive, send)
        elif _READ.fullmatch(path):
            await self._http({**scope, "method": "GET", "path": path, "raw_path": raw_path}, receive, send)
        elif _INDEX.fullmatch(path):
            await self._http({**scope, "path": path, "raw_path": raw_path}, receive, send)
        elif _CLOSED.fullmatch(path):
            await error_answer(403, f"{_shown(path)} can't be reached by a redirect, only by HTTP's own port")(
                scope, receive, send
            )
        else:
            await error_answer(400, f"there is nothing to redirect to at {_shown(path)}")(scope, receive, send)


def _shown(path: str) -> str:
    return printable(shown(path))
