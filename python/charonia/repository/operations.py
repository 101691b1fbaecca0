"""Loads and unloads, one at a time on each model and in the order in which they were asked for.

What is loaded is remembered by what it was loaded from, so that a later load touches only what has changed since.
"""

from collections.abc import Callable, Sequence

from charonia.core.errors import InvalidArgumentError, UnavailableError
from charonia.core.text import shown
from charonia.engine.model import ModelVersion
from charonia.repository.lifecycle import ModelLifecycle
from charonia.repository.loader import ModelLoad, ModelLoader
from charonia.repository.source import ModelSource
from charonia.repository.turns import Turns

Look = Callable[[ModelSource | None], ModelSource]
"""Gives what to load now, told what the model that serves was loaded from. Raises CharoniaError if there is nothing."""


class ModelOperations:
    """All operations on the models of one server."""

    def __init__(self, lifecycle: ModelLifecycle[ModelVersion], loader: ModelLoader) -> None:
        self._lifecycle = lifecycle
        self._loader = loader
        self._turns = Turns()
        self._served: dict[str, ModelLoad] = {}
        self._stopping = False

    def load_all(self, sources: Sequence[ModelSource]) -> None:
        """The load of the start, which knows how many instances will share the cores."""
        with self._turns.of_all([source.name for source in sources]):
            self._load(sources)

    def load(self, name: str, look: Look) -> None:
        """Load what `look` gives, when it is this model's turn. A model that fails keeps what it had.

        Raises:
            InvalidArgumentError: with the reason why it can't be loaded.
            UnavailableError: the server is stopping.
            CharoniaError: what `look` raised.
        """
        with self._turns.of(name):
            if self._stopping:
                raise UnavailableError(f"model '{shown(name)}' is not loaded: the server is stopping")
            before = self._served.get(name)
            source = look(before.source if before is not None else None)
            try:
                reason = self._load([source]).get(name)
            finally:
                if source.folder is not None:
                    source.folder.release()
        if reason is not None:
            error = UnavailableError if self._stopping else InvalidArgumentError
            if source.config_json is not None:
                reason = f"failed to load it with the configuration of the request: {reason}"
            raise error(f"load failed for model '{name}': {reason}")

    def unload(self, name: str) -> None:
        """Take it out of service; what it accepted is answered afterwards."""
        with self._turns.of(name):
            self._drop(name)
            self._lifecycle.unload(name)

    def forget(self, name: str) -> None:
        """As `unload`, for a model that no repository has any more."""
        with self._turns.of(name):
            self._drop(name)
            self._lifecycle.forget(name)

    def busy(self, name: str) -> bool:
        """Whether an operation on the model is in work."""
        return self._turns.busy(name)

    def stop(self) -> None:
        """Begin no more loads."""
        self._stopping = True

    def _load(self, sources: Sequence[ModelSource]) -> dict[str, str]:
        plans = self._loader.plan(sources, self._served)
        failed = dict(self._lifecycle.load(plans))
        for name, plan in plans.items():
            if name not in failed and isinstance(plan, ModelLoad):
                self._served[name] = plan
            self._loader.keep(name, self._served.get(name))
        return failed

    def _drop(self, name: str) -> None:
        self._served.pop(name, None)
        self._loader.keep(name, None)
