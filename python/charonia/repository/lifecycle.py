"""Loading and unloading: drives each model version through its states and publishes a Directory at every change.

A new load of a served model happens beside the old versions, which serve until all new ones are ready; then one
publication switches over, and the old ones are stopped.
"""

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic
from typing import Generic, Protocol

from charonia.core.errors import CharoniaError
from charonia.core.log import Log
from charonia.core.request import ANY_VERSION
from charonia.repository.directory import Directory
from charonia.repository.readiness import version_ready
from charonia.repository.states import ModelRecord, State, V, V_co, VersionRecord

# A server with very many models must not start very many threads to stop.
_UNLOAD_THREADS = 32
_ABORTED = "not loaded: the server is stopping"
# Its instances are down already, so there is little to wait for.
_CONDEMNED_STOP_S = 5.0
# A version that was replaced finishes what it accepted, however long that takes.
_RETIRED_STOP_S = 3600.0


class ModelPlan(Protocol[V_co]):
    """A model whose config has been read: what will be loaded."""

    @property
    def versions(self) -> Sequence[int]:
        """The numbers to load, at least one."""
        ...

    def load(self, version: int) -> V_co:
        """Load and start one version; may take long; several run at once. Raises CharoniaError with the reason."""
        ...


Plans = Mapping[str, ModelPlan[V] | CharoniaError]
"""By model name: what to load, or why it can't be. Made for all models of a load at once: instances share the cores."""


@dataclass(slots=True)
class _Attempt(Generic[V]):
    """One load of one model, in progress: `fresh` takes the place of the model's versions when all of them are up."""

    plan: ModelPlan[V]
    fresh: dict[int, VersionRecord[V]]
    left: int


class ModelLifecycle(Generic[V]):
    """All models of a server.

    Args:
        threads: how many versions load at once.
        retries: how often a failed load is tried again.
        on_change: called after each publication, by a thread that caused it; must be quick. Changes of several threads
            may share one publication.
    """

    def __init__(
        self,
        log: Log,
        *,
        threads: int = 4,
        retries: int = 0,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._log = log
        self._threads = threads
        self._retries = retries
        self._on_change = on_change
        self._lock = threading.Lock()
        self._publishing = threading.Lock()
        self._changes = 0
        self._published = 0
        self._models: dict[str, ModelRecord[V]] = {}
        self._known = False
        self._stopping = False
        self.directory: Directory[V] = Directory({}, scanned=False)

    def find(self, name: str, version: int = ANY_VERSION) -> V:
        """As `Directory.find`, in the newest one. This is what the engine asks for every request."""
        return self.directory.find(name, version)

    def know(self, names: Iterable[str], unusable: Mapping[str, str], asked: Iterable[str] = ()) -> None:
        """Tell which models the repositories hold; nothing is loaded by this.

        Args:
            unusable: names that can't be loaded, with the reason.
            asked: those that are about to be loaded, as for `ask`.
        """
        with self._lock:
            for name in names:
                self._models.setdefault(name, ModelRecord(name))
            for name, reason in unusable.items():
                self._models[name] = ModelRecord(name, reason=reason)
            for name in asked:
                self._models[name].asked = True
            self._known = True
        self._publish()

    def ask(self, names: Iterable[str]) -> None:
        """From now on these models count for strict readiness."""
        with self._lock:
            for name in names:
                self._models.setdefault(name, ModelRecord(name)).asked = True
        self._publish()

    def load(self, plans: Plans[V]) -> bool:
        """Load models, and wait until each has been tried. True when all of them came up."""
        self.ask(plans)
        attempts = self._attempts(plans)
        jobs = [(name, version) for name, attempt in attempts.items() for version in attempt.fresh]
        if jobs:
            with ThreadPoolExecutor(min(self._threads, len(jobs)), "load") as pool:
                done = [pool.submit(self._load_version, name, version, attempts[name]) for name, version in jobs]
            for each in done:
                each.result()  # a load that fails is no exception here: what comes out is a bug, and must not be lost
        return all(name in attempts and not self._failed(attempts[name]) for name in plans)

    def unload(self, name: str, timeout_s: float) -> bool:
        """Stop all versions of a model. False when one was still busy when the time ran out; it is left then."""
        with self._lock:
            model = self._models.get(name)
            if model is None:
                return True
            model.asked = False
            records = [record for record in model.versions.values() if record.loaded is not None]
            for record in records:
                record.state, record.reason = State.UNLOADING, ""
        self._publish()
        deadline = monotonic() + timeout_s
        stopped = [self._stop_version(name, record, deadline) for record in records]
        return all(stopped)

    def condemn(self, name: str, loaded: V, reason: str) -> None:
        """A served version turned out to be broken for good: UNAVAILABLE with this reason from now on, and stopped."""
        with self._lock:
            model = self._models.get(name)
            records = [record for record in model.versions.values() if record.loaded is loaded] if model else []
            for record in records:
                record.state, record.reason, record.loaded = State.UNAVAILABLE, reason, None
        if not records:
            return  # it was replaced or unloaded meanwhile
        self._log.error(f"model '{name}' version {records[0].version} is UNAVAILABLE from now on: {reason}")
        self._publish()
        loaded.retire()
        loaded.stop(_CONDEMNED_STOP_S)

    def abort(self) -> None:
        """Loads that have not begun yet are not begun any more; `load` returns soon."""
        self._stopping = True

    def stop(self, timeout_s: float) -> bool:
        """Unload everything. False when the time ran out."""
        self.abort()
        deadline = monotonic() + timeout_s
        names = sorted(self._models)
        # Side by side: unloading a Python model is waiting for its process.
        with ThreadPoolExecutor(max(1, min(_UNLOAD_THREADS, len(names))), "unload") as threads:
            return all(list(threads.map(lambda name: self.unload(name, max(0.0, deadline - monotonic())), names)))

    def wanted_ready(self) -> list[bool]:
        """For each version of each model that was asked for: whether it is ready. A model without any counts as not."""
        with self._lock:
            return [ready for model in self._models.values() if model.asked for ready in _readiness(model)]

    def _attempts(self, plans: Plans[V]) -> dict[str, _Attempt[V]]:
        attempts: dict[str, _Attempt[V]] = {}
        for name, plan in plans.items():
            if isinstance(plan, CharoniaError):
                self._log.error(f"failed to load '{name}': {plan}")
                self._refuse(name, str(plan))
                continue
            fresh = {version: VersionRecord[V](version, State.LOADING) for version in plan.versions}
            attempts[name] = _Attempt(plan, fresh, len(fresh))
            with self._lock:
                model = self._models[name]
                model.reason = ""
                if not any(record.loaded for record in model.versions.values()):
                    model.versions = fresh
        self._publish()
        return attempts

    def _refuse(self, name: str, reason: str) -> None:
        """A model that can't be loaded keeps what it has."""
        with self._lock:
            model = self._models[name]
            if not any(record.loaded for record in model.versions.values()):
                model.versions, model.reason = {}, reason

    def _load_version(self, name: str, version: int, attempt: _Attempt[V]) -> None:
        record = attempt.fresh[version]
        try:
            self._log.info(f"loading: {name}:{version}")
            record.loaded = self._tried(name, version, attempt.plan)
        except CharoniaError as error:
            record.state, record.reason = State.UNAVAILABLE, str(error)
        except Exception as error:
            record.state, record.reason = State.UNAVAILABLE, f"{type(error).__name__}: {error}"
            self._log.error(f"loading '{name}' version {version} failed by a bug of the server or of its backend")
            with suppress(Exception):
                self._log.error(_traceback(error))
        with self._lock:
            attempt.left -= 1
            last = attempt.left == 0
        if last:
            self._finish(name, attempt)

    def _tried(self, name: str, version: int, plan: ModelPlan[V]) -> V:
        for left in range(self._retries, -1, -1):
            if self._stopping:
                raise CharoniaError(_ABORTED)
            try:
                return plan.load(version)
            except CharoniaError as error:
                if not left:
                    raise
                self._log.warning(f"'{name}' version {version} failed to load, trying again: {error}")
        raise AssertionError("not reached")

    def _finish(self, name: str, attempt: _Attempt[V]) -> None:
        """All versions of a load have been tried: serve all, or none of them."""
        if self._failed(attempt):
            self._give_up(name, attempt)
            return
        with self._lock:
            model = self._models[name]
            old, model.versions = model.versions, attempt.fresh
            for record in attempt.fresh.values():
                record.state = State.READY
        self._publish()
        self._log.info(f"successfully loaded '{name}'")
        if old is not attempt.fresh:
            for record in old.values():
                self._retire(name, record)

    def _give_up(self, name: str, attempt: _Attempt[V]) -> None:
        for record in attempt.fresh.values():
            if record.state is State.UNAVAILABLE:
                self._log.error(f"failed to load '{name}' version {record.version}: {record.reason}")
        for record in attempt.fresh.values():
            if record.loaded is not None:
                self._retire(name, record)
                record.reason = "unloaded: another version of the model failed to load"
        self._publish()

    @staticmethod
    def _failed(attempt: _Attempt[V]) -> bool:
        return any(record.state is State.UNAVAILABLE for record in attempt.fresh.values())

    def _retire(self, name: str, record: VersionRecord[V]) -> None:
        self._stop_version(name, record, monotonic() + _RETIRED_STOP_S)

    def _stop_version(self, name: str, record: VersionRecord[V], deadline: float) -> bool:
        loaded = record.loaded
        if loaded is None:
            return True
        loaded.retire()
        loaded.wait_idle(max(0.0, deadline - monotonic()))
        stopped = loaded.stop(max(0.0, deadline - monotonic()))
        if stopped:
            self._log.info(f"successfully unloaded '{name}' version {record.version}")
        with self._lock:
            record.state, record.reason, record.loaded = State.UNAVAILABLE, "unloaded", None
        self._publish()
        return stopped

    def _publish(self) -> None:
        """Show what was changed before this call, and return when it is shown.

        It takes time by the number of models. So threads that wait here together are served by one publication, else
        a thousand models took half a minute to stop.
        """
        with self._lock:
            self._changes += 1
            mine = self._changes
        with self._publishing:
            if self._published >= mine:
                return
            with self._lock:
                shown = self._changes
                self.directory = Directory(self._models, scanned=self._known)
            self._on_change()
            self._published = shown


def _readiness(model: ModelRecord[V]) -> list[bool]:
    return [is_ready(record) for record in model.versions.values()] or [False]


def is_ready(record: VersionRecord[V]) -> bool:
    """Whether the version can serve right now."""
    return record.loaded is not None and version_ready(record.state, record.loaded.live_instances)


def _traceback(error: BaseException) -> str:
    from traceback import format_exception

    return "".join(format_exception(error))
