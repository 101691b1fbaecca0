"""Liveness and readiness, of the server and of a model."""

import asyncio
from collections.abc import Iterable

from charonia.control.protocols import Models, ServerView, VersionView
from charonia.core.errors import NotFoundError, UnavailableError
from charonia.core.readiness import ANSWER_S, TellsReadiness


class Health:
    """Over HTTP and gRPC the wire answers from a published table while no model has to be asked; this is the same
    answer for every other caller, and the only one for models that tell their readiness themselves.

    Args:
        answer_s: a model that has not answered by then is not ready.
    """

    def __init__(self, server: ServerView, models: Models, answer_s: float = ANSWER_S) -> None:
        self._server = server
        self._models = models
        self._answer_s = answer_s

    def live(self) -> bool:
        return self._server.live

    async def ready(self) -> bool:
        """Strictly only while all models say so of themselves."""
        if not (self._server.ready and self._server.strict):
            return self._server.ready
        return await self._all_ready(self._models().loaded())

    async def model_ready(self, name: str, version: int) -> bool:
        """False while it is loading. Raises NotFoundError for a model or version that does not exist."""
        try:
            found = self._models().find(name, version)
        except UnavailableError:
            return False
        return found.live_instances > 0 and await self._all_ready([found])

    async def known_and_ready(self, name: str, version: int) -> bool:
        """As `model_ready`, with False for what does not exist: gRPC clients rely on that."""
        try:
            return await self.model_ready(name, version)
        except NotFoundError:
            return False

    async def _all_ready(self, versions: Iterable[VersionView]) -> bool:
        tellers: list[TellsReadiness] = [teller for version in versions for teller in version.readiness_tellers]
        if not tellers:
            return True
        answers = [asyncio.wrap_future(teller.ask_ready()) for teller in tellers]
        done, late = await asyncio.wait(answers, timeout=self._answer_s)
        return not late and all(answer.result() for answer in done)
