"""What the control handlers need of the rest of the server. The composition root gives it; tests give fakes."""

from collections.abc import Callable, Sequence
from typing import Protocol

from charonia.core.overrides import LoadOverrides
from charonia.core.readiness import TellsReadiness
from charonia.core.request import ANY_VERSION
from charonia.observe.log import LevelChanges, LogLevels, LogSettings
from charonia.observe.model_metrics import MeasuredModel


class ServerView(Protocol):
    """The server as a whole. `id` is the name clients see (`--id`, default `triton`)."""

    @property
    def id(self) -> str: ...
    @property
    def live(self) -> bool: ...
    @property
    def ready(self) -> bool: ...
    @property
    def strict(self) -> bool:
        """Whether the server is ready only while all its models are."""
        ...


class InstanceView(Protocol):
    """One instance of a model; `backends.instance.InstanceRunner` is the real one."""

    @property
    def name(self) -> str: ...
    @property
    def device(self) -> str: ...
    @property
    def is_busy(self) -> bool: ...
    @property
    def alive(self) -> bool: ...


class VersionView(MeasuredModel, Protocol):
    """One loaded model version; `engine.model.ModelVersion` is the real one.

    It is ready while at least one of its instances lives, and none of them says that it is not.
    """

    @property
    def instances(self) -> Sequence[InstanceView]: ...
    @property
    def live_instances(self) -> int: ...
    @property
    def readiness_tellers(self) -> Sequence[TellsReadiness]: ...


class IndexEntry(Protocol):
    """One row of the repository index; `repository.states.IndexEntry` is the real one.

    A model that was never loaded has only a name. `reason` says why the state is not READY, "" if nobody knows.
    """

    @property
    def name(self) -> str: ...
    @property
    def version(self) -> int | None: ...
    @property
    def state(self) -> str | None: ...
    @property
    def reason(self) -> str: ...


class ModelDirectory(Protocol):
    """The models of the server at one moment; `repository.directory.Directory` is the real one. Nothing here blocks."""

    def find(self, name: str, version: int = ANY_VERSION) -> VersionView:
        """The loaded version, or the one that serves requests without a version.

        Raises:
            NotFoundError: no such model or version.
            UnavailableError: it exists and is loading, or could not be loaded.
        """
        ...

    def versions(self, name: str) -> Sequence[VersionView]:
        """All loaded versions of a model, ascending; raises as `find`."""
        ...

    def loaded(self) -> Sequence[VersionView]:
        """All loaded versions of all models, by name and version."""
        ...

    def check_known(self, name: str) -> None:
        """Raises NotFoundError when no repository has this model, loaded or not."""
        ...

    def index(self) -> Sequence[IndexEntry]:
        """Every model of the repositories, loaded or not, by name and version."""
        ...


Models = Callable[[], ModelDirectory]
"""Gives the directory of this moment. A handler asks once for each answer, so that the answer is of one moment."""


class ModelControl(Protocol):
    """Loads and unloads by request. Both wait until the work is done, so they are called from threads that may wait.

    Calls for the same model take effect in the order in which they were made; the last one's state stays.
    """

    def load(self, name: str, overrides: LoadOverrides) -> None:
        """Load, or load anew what changed since it was loaded. A failed load leaves the versions that served.

        Raises:
            UnavailableError: the server's control mode does not allow it, or it is stopping.
            NotFoundError: no repository has this model.
            InvalidArgumentError: the name, the overrides, the configuration or the model can't be used; with the
                reason.
        """
        ...

    def unload(self, name: str, dependents: bool) -> None:
        """Take it out of service: when this returns, no request is accepted any more. Those that were are answered
        afterwards; until then the model is UNLOADING. An unknown or unloaded model is no error.

        Args:
            dependents: also unload the models that it is composed of.

        Raises:
            UnavailableError: the server's control mode does not allow it.
        """
        ...

    def add(self, repository: str, folder: str, name: str) -> None:
        """Add a repository, and serve the model in one of its folders under a name of its own.

        Raises:
            AlreadyExistsError: the repository is one already, or the name is taken.
            CharoniaError: as `load`; then the repository is none.
        """
        ...

    def remove(self, repository: str, name: str, timeout_s: float) -> bool:
        """Take such a repository away with all its models, and wait until they have ended. False if the time ran
        out; they end later then."""
        ...


class LogControl(Protocol):
    """What may be changed of the server's log while it runs; `observe.log.ServerLog` is the real one."""

    @property
    def settings(self) -> LogSettings: ...
    def change(self, settings: LogSettings) -> None: ...
    def changes_of(self, model: str) -> LevelChanges: ...
    def change_model(self, model: str, changes: LevelChanges) -> None: ...
    def levels_of(self, model: str) -> LogLevels: ...
