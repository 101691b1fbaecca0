"""Liveness and readiness, of the server and of a model."""

from charonia.control.protocols import Models, ServerView
from charonia.core.errors import NotFoundError, UnavailableError


class Health:
    """Over HTTP and gRPC the wire answers from a published table; this is the same answer for every other caller."""

    def __init__(self, server: ServerView, models: Models) -> None:
        self._server = server
        self._models = models

    def live(self) -> bool:
        return self._server.live

    def ready(self) -> bool:
        return self._server.ready

    def model_ready(self, name: str, version: int) -> bool:
        """False while it is loading. Raises NotFoundError for a model or version that does not exist."""
        try:
            return self._models().find(name, version).live_instances > 0
        except UnavailableError:
            return False

    def known_and_ready(self, name: str, version: int) -> bool:
        """As `model_ready`, with False for what does not exist: gRPC clients rely on that."""
        try:
            return self.model_ready(name, version)
        except NotFoundError:
            return False
