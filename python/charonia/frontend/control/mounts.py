"""Apps of the user on the server's HTTP port: each gets the paths that start with its prefix."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from charonia.core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

Mounts = Mapping[str, "ASGIApp"]
NO_MOUNTS: Mounts = {}

_OURS = ("/v2", "/live")


def check_mounts(mounts: Mounts) -> None:
    """Raises InvalidArgumentError for a prefix that is no path, or one of the server's own."""
    for prefix in mounts:
        if not prefix.startswith("/") or prefix.endswith("/") or "//" in prefix:
            raise InvalidArgumentError(f"mount: '{prefix}' must be a path such as '/chat', without a slash at its end")
        if any(_is_under(prefix, ours) for ours in _OURS):
            raise InvalidArgumentError(f"mount: '{prefix}' is one of the server's own paths ({' and '.join(_OURS)})")


class MountedApps:
    """An ASGI app that shares its paths out: the longest prefix first, the rest to `default`.

    A mounted app sees the whole path, and its prefix as `root_path`. It gets no lifespan events.
    """

    def __init__(self, default: "ASGIApp", mounts: Mounts) -> None:
        self._default = default
        self._apps = sorted(mounts.items(), key=lambda item: -len(item[0]))

    async def __call__(self, scope: "Scope", receive: "Receive", send: "Send") -> None:
        for prefix, app in self._apps:
            if _is_under(scope["path"], prefix):
                await app({**scope, "root_path": scope["root_path"] + prefix}, receive, send)
                return
        await self._default(scope, receive, send)


def _is_under(path: str, prefix: str) -> bool:
    return path == prefix or path.startswith(f"{prefix}/")
