"""What models may ask of the repositories: by BLS, from their own code."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from charonia.core.errors import CharoniaError
from charonia.core.overrides import LoadOverrides
from charonia.core.readiness import all_ready
from charonia.engine.model import ModelVersion
from charonia.repository.directory import Directory
from charonia.repository.turns import Turn


class Control(Protocol):
    """Loads and unloads by request; `repository.control.RepositoryControl` is the real one.

    `within` is the turn of the operation that waits for this one.
    """

    def load(self, name: str, overrides: LoadOverrides, within: Turn | None = None) -> None: ...
    def unload(self, name: str, dependents: bool, within: Turn | None = None) -> None: ...


class ModelCalls:
    """See `core.protocols.OtherModels`.

    Args:
        control, directory: asked for when they are needed: the models' own part of the server is made before them.
    """

    def __init__(self, control: Callable[[], Control], directory: Callable[[], Directory[ModelVersion]]) -> None:
        self._control = control
        self._directory = directory
        self._turn: Turn | None = None

    @contextmanager
    def during(self, turn: Turn | None) -> Iterator["ModelCalls"]:
        """The calls of a model that is loaded in this block: what it waits for, this turn waits for."""
        calls = ModelCalls(self._control, self._directory)
        calls._turn = turn
        try:
            yield calls
        finally:
            calls._turn = None

    def load(self, name: str, overrides: LoadOverrides) -> None:
        self._control().load(name, overrides, self._turn)

    def unload(self, name: str, dependents: bool) -> None:
        self._control().unload(name, dependents, self._turn)

    def is_ready(self, name: str, version: int) -> bool:
        try:
            found = self._directory().find(name, version)
        except CharoniaError:
            return False
        return found.live_instances > 0 and all_ready(found.readiness_tellers)
