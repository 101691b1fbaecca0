"""What the control handlers need of the rest of the server. The composition root gives it; tests give fakes."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from charonia.observe.model_metrics import MeasuredModel

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig

ANY_VERSION = -1


class ServerView(Protocol):
    """The server as a whole. `id` is the name clients see (`--id`, default `triton`)."""

    @property
    def id(self) -> str: ...
    @property
    def live(self) -> bool: ...
    @property
    def ready(self) -> bool: ...


class ModelView(MeasuredModel, Protocol):
    """One loaded model version. `config` is the completed one that requests are checked against."""

    @property
    def config(self) -> "ModelConfig": ...
    @property
    def ready(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """One row of the repository index. A model that was never loaded has only a name.

    `state` is one of LOADING, READY, UNLOADING, UNAVAILABLE or ""; `reason` says why it is not READY.
    """

    name: str
    version: str = ""
    state: str = ""
    reason: str = ""


class ModelDirectory(Protocol):
    """The models of the server. Nothing here blocks: it is called on the control thread."""

    def find(self, name: str, version: int = ANY_VERSION) -> ModelView:
        """The loaded version, or the one that serves requests without a version.

        Raises:
            NotFoundError: no such model or version.
            UnavailableError: it exists and is loading, or has no version that could be loaded.
        """
        ...

    def versions(self, name: str) -> Sequence[ModelView]:
        """All loaded versions of a model, ascending; raises as `find`."""
        ...

    def loaded(self) -> Sequence[ModelView]:
        """All loaded versions of all models, by name and version."""
        ...

    def index(self) -> Sequence[IndexEntry]:
        """Every model of the repositories, loaded or not, by name and version."""
        ...
