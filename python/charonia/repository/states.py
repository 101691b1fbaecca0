"""The states of a model version, and what is remembered of each model."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

from charonia.core.model_id import ModelId, model_id


class State(StrEnum):
    """Triton's states. UNKNOWN is a version that nobody asked for."""

    UNKNOWN = "UNKNOWN"
    LOADING = "LOADING"
    READY = "READY"
    UNLOADING = "UNLOADING"
    UNAVAILABLE = "UNAVAILABLE"


class LoadedVersion(Protocol):
    """A model version in memory, as the repository sees it; `engine.model.ModelVersion` is the real one."""

    @property
    def live_instances(self) -> int:
        """How many of its instances are healthy."""
        ...

    @property
    def failure(self) -> str | None:
        """Why it will never serve again, though it is loaded; None for nearly every one."""
        ...

    def retire(self) -> None:
        """Take no new requests."""
        ...

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until every accepted request is settled. False when the time ran out."""
        ...

    def stop(self, timeout_s: float) -> bool:
        """Fail what still waits, end the instances, free everything. False when the time ran out.

        May be called again, also by several threads.
        """
        ...


V = TypeVar("V", bound=LoadedVersion)

UNLOADED = "unloaded"
"""The reason of a version that was taken out of service by a request, or since its folder is gone."""


@dataclass(slots=True)
class VersionRecord(Generic[V]):
    """One version: `loaded` is set in the states READY and UNLOADING; `reason` says why it is UNAVAILABLE."""

    version: int
    state: State = State.UNKNOWN
    reason: str = ""
    loaded: V | None = None

    @property
    def is_out(self) -> bool:
        """Whether it was taken out of service, or is about to be."""
        return self.state is State.UNLOADING or self.reason == UNLOADED


@dataclass(slots=True)
class ModelRecord(Generic[V]):
    """One model of the repositories.

    Attributes:
        asked: whether it should be served, so that strict readiness counts it.
        gone: no repository has it any more, and it was unloaded for that: it is in no index.
        unusable: why it can't be loaded as the repositories are (it is in two of them); "" if it can.
        reason: why none of its versions could be chosen at the last load (a config that can't be read); "" if fine.
        versions: those that were tried, by number.
    """

    name: ModelId
    asked: bool = False
    gone: bool = False
    unusable: str = ""
    reason: str = ""
    versions: dict[int, VersionRecord[V]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.name = model_id(self.name)

    @property
    def is_loaded(self) -> bool:
        return any(record.loaded is not None for record in self.versions.values())

    def refuse(self, reason: str) -> None:
        """It can't be loaded, and keeps what it has."""
        if not self.is_loaded:
            self.versions, self.reason = {}, reason

    def begin_unload(self) -> list[VersionRecord[V]]:
        """Nobody asks for it any more. Gives the versions that served, which are UNLOADING from now on."""
        self.asked = False
        serving = [record for record in self.versions.values() if record.state is State.READY]
        for record in serving:
            record.state, record.reason = State.UNLOADING, ""
        return serving


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """A line of the repository index, and of the model table.

    Attributes:
        version: None for a model of which no version was ever tried.
        state: None for a model that nobody asked for.
        reason: why the state is UNAVAILABLE; "" if there is nothing to say.
        namespace: see `ModelId`; the index itself shows the name only.
    """

    name: str
    version: int | None = None
    state: State | None = None
    reason: str = ""
    namespace: str = ""

    @property
    def id(self) -> ModelId:
        return ModelId(self.name, self.namespace)
