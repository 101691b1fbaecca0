"""One load of one model, in progress: which versions are loaded, which are kept, and the switch at the end."""

import threading
from contextlib import suppress
from dataclasses import dataclass, field
from traceback import format_exception
from typing import Generic

from charonia.core.errors import CharoniaError
from charonia.core.log import Log
from charonia.core.model_id import ModelId
from charonia.repository.plans import Change, ModelPlan, VersionUpdate
from charonia.repository.states import ModelRecord, State, V, VersionRecord

STOPPING = "not loaded: the server is stopping"


@dataclass(slots=True)
class Attempt(Generic[V]):
    """Changed under the lock of the lifecycle, but for `updates` and `failures`, which grow by one at a time.

    Attributes:
        fresh: the versions that are loaded.
        kept: the versions that serve on, some of them updated.
        work: the numbers of those to load and to update.
        updates: those that are prepared.
        failures: why a version could not be loaded or updated.
        left: how many of `work` are not done yet.
    """

    name: ModelId
    plan: ModelPlan[V]
    fresh: dict[int, VersionRecord[V]]
    kept: dict[int, VersionRecord[V]]
    work: list[int]
    left: int
    updates: list[VersionUpdate] = field(default_factory=list)
    failures: dict[int, CharoniaError] = field(default_factory=dict)

    @property
    def why_failed(self) -> str:
        """A sentence for each version that failed."""
        return " ".join(
            f"version {version} is at {State.UNAVAILABLE if version in self.fresh else State.READY} state: {error};"
            for version, error in sorted(self.failures.items())
        )

    def fail(self, version: int, error: CharoniaError) -> None:
        self.failures[version] = error
        if version in self.fresh:
            self.fresh[version].state, self.fresh[version].reason = State.UNAVAILABLE, str(error)

    def fail_all(self, error: CharoniaError) -> None:
        for version in self.work:
            if version not in self.failures:
                self.fail(version, error)

    def switch(self, model: ModelRecord[V]) -> list[VersionRecord[V]]:
        """Everything is up: the model has these versions from now on. Gives the ones to stop."""
        replaced = [r for v, r in model.versions.items() if r.state is State.READY and v not in self.kept]
        for record in replaced:
            record.state = State.UNLOADING
        for record in self.fresh.values():
            record.state, record.reason = State.READY, ""
        others = {v: r for v, r in model.versions.items() if r.is_out}
        model.versions = {**others, **self.kept, **self.fresh}
        return replaced


def begun(model: ModelRecord[V], plan: ModelPlan[V]) -> Attempt[V]:
    """Decide on each version. What does not serve now is LOADING from now on; what serves does so until the switch."""
    fresh: dict[int, VersionRecord[V]] = {}
    kept: dict[int, VersionRecord[V]] = {}
    updated: list[int] = []
    for version in plan.versions:
        record = model.versions.get(version)
        serving = record is not None and record.state is State.READY
        change = plan.change(version, record.loaded) if record and record.loaded and serving else Change.LOAD
        if change is Change.LOAD or record is None:
            fresh[version] = VersionRecord(version, State.LOADING)
        else:
            kept[version] = record
            updated += [version] if change is Change.UPDATE else []
    shown = {v: record for v, record in fresh.items() if v not in model.versions or _is_down(model.versions[v])}
    model.reason = ""
    model.versions = {**model.versions, **shown}
    work = [*fresh, *updated]
    return Attempt(model.name, plan, fresh, kept, work, len(work))


def _is_down(record: VersionRecord[V]) -> bool:
    return record.state is not State.READY


def work_on(attempt: Attempt[V], version: int, retries: int, stopping: threading.Event, log: Log) -> None:
    """Load or update one version of the attempt. Whatever goes wrong is a failure of the attempt."""
    try:
        if version in attempt.fresh:
            log.info(f"loading: {attempt.name}:{version}")
            attempt.fresh[version].loaded = _loaded(attempt, version, retries, stopping, log)
        elif (served := attempt.kept[version].loaded) is not None:
            attempt.updates.append(attempt.plan.update(version, served))
    except CharoniaError as error:
        attempt.fail(version, error)
    except Exception as error:
        attempt.fail(version, CharoniaError(f"{type(error).__name__}: {error}"))
        log.error(f"loading '{attempt.name}' version {version} failed by a bug of the server or of its backend")
        with suppress(Exception):  # the error may be one that can't be written
            log.error("".join(format_exception(error)))


def _loaded(attempt: Attempt[V], version: int, retries: int, stopping: threading.Event, log: Log) -> V:
    for left in range(retries, -1, -1):
        if stopping.is_set():
            raise CharoniaError(STOPPING)
        try:
            return attempt.plan.load(version)
        except CharoniaError as error:
            if not left:
                raise
            log.warning(f"'{attempt.name}' version {version} failed to load, trying again: {error}")
    raise AssertionError("not reached")
