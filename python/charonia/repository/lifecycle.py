"""Loading and unloading: drives each model version through its states and publishes a Directory at every change.

A new load of a served model happens beside the old versions, which serve until all new ones are ready; then one
publication switches over, and the old ones are stopped once their requests are answered. Operations on one model come
one after the other (`operations.py` sees to it); those on different models may come at the same time. What the log
tells is in the index already.
"""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from time import monotonic
from typing import Generic

from charonia.config.announce import log_errors
from charonia.core.errors import CharoniaError, UnavailableError
from charonia.core.log import Log
from charonia.core.model_id import ModelId
from charonia.core.request import ANY_VERSION
from charonia.repository.attempt import STOPPING, Attempt, begun, work_on
from charonia.repository.directory import Directory, ModelView
from charonia.repository.plans import Plans
from charonia.repository.publication import Publication
from charonia.repository.readiness import model_ready
from charonia.repository.retirement import Retirement
from charonia.repository.states import UNLOADED, ModelRecord, State, V, VersionRecord

# A server with very many models must not start very many threads to stop.
_UNLOAD_THREADS = 32
# Its instances are down already, so there is little to wait for.
_CONDEMNED_STOP_S = 5.0


class ModelLifecycle(Generic[V]):
    """All models of a server; each under its id, which is its plain name where there are no namespaces.

    Args:
        threads: how many versions load at once.
        retries: how often a failed load is tried again.
        before_change: called before each publication, as `on_change`: what is known of the models may be wrong now.
        on_change: called after each publication, by a thread that caused it; must be quick. Changes of several threads
            may share one publication.
    """

    def __init__(
        self,
        log: Log,
        *,
        threads: int = 4,
        retries: int = 0,
        before_change: Callable[[], None] = lambda: None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._log = log
        self._loaders = ThreadPoolExecutor(threads, "load")
        self._retries = retries
        self._before_change = before_change
        self._on_change = on_change
        self._lock = threading.Lock()
        self._loads_ended = threading.Condition(self._lock)
        self._publication = Publication(self._publish)
        self._views: dict[ModelId, ModelView[V]] = {}
        self._touched: set[ModelId] = set()
        self._models: dict[ModelId, ModelRecord[V]] = {}
        self._known = False
        self._stopping = threading.Event()
        self._loads = 0
        self._retirement: Retirement[V] = Retirement(self._on_stopped, log)
        self.directory: Directory[V] = Directory({}, scanned=False)

    def find(self, name: str, version: int = ANY_VERSION) -> V:
        """As `Directory.find`, in the newest one. This is what the engine asks for every request."""
        return self.directory.find(name, version)

    def find_leaving(self, name: str, version: int) -> V | None:
        """As `Directory.find_leaving`, in the newest one."""
        return self.directory.find_leaving(name, version)

    def know(self, names: Iterable[ModelId], unusable: Mapping[ModelId, str], asked: Iterable[ModelId] = ()) -> None:
        """Tell which models the repositories hold; nothing is loaded or unloaded by this.

        Args:
            unusable: names that can't be loaded, with the reason.
            asked: those that are about to be loaded: from now on they count for strict readiness.
        """
        there = {*names, *unusable}
        with self._lock:
            before = {name: _known_of(model) for name, model in self._models.items()}
            for name in [name for name, model in self._models.items() if name not in there and not _in_use(model)]:
                del self._models[name]
            for name in there:
                model = self._models.setdefault(name, ModelRecord(name))
                model.unusable, model.gone = unusable.get(name, ""), False
            for name in asked:
                self._models[name].asked = True
            after = {name: _known_of(model) for name, model in self._models.items()}
            changed = {name for name in {*before, *after} if before.get(name) != after.get(name)}
            self._touched.update(changed)
            is_news, self._known = bool(changed) or not self._known, True
        if is_news:
            self._publication.show()

    def load(self, plans: Plans[V], *, in_pool: bool = True) -> Mapping[ModelId, str]:
        """Load models, and wait until each has been tried.

        Args:
            in_pool: whether the threads that load do it. A model that asks for it while it is loaded itself has one of
                them already, and must not wait for another: then the calling thread does it.

        Returns:
            By name, why a model was not loaded; it has what it had before then.
        """
        with self._lock:
            if self._stopping.is_set():
                plans = {name: UnavailableError(STOPPING) for name in plans}
            self._loads += 1
            for name in plans:
                model = self._models.setdefault(name, ModelRecord(name))
                model.asked, model.gone = True, False
            refused = {name: plan for name, plan in plans.items() if isinstance(plan, CharoniaError)}
            for name, error in refused.items():
                self._models[name].refuse(str(error))
            self._touched.update(plans)
            attempts = [
                begun(self._models[n], plan) for n, plan in plans.items() if not isinstance(plan, CharoniaError)
            ]
        self._publication.show()
        for name, error in refused.items():
            log_errors(self._log.about(name), f"failed to load '{name}'", error)
        try:
            self._run(attempts, in_pool)
        finally:
            with self._lock:
                self._loads -= 1
                self._loads_ended.notify_all()
        self._publication.show()
        reasons = {name: str(error) for name, error in refused.items()}
        return reasons | {attempt.name: attempt.why_failed for attempt in attempts if attempt.failures}

    def unload(self, name: ModelId, *, after: Sequence[ModelId] = ()) -> None:
        """Take a model out of service. Its versions are UNLOADING until their requests are answered; nobody waits.

        Args:
            after: models that are leaving too; while they answer what they accepted, they may still ask this one.
        """
        with self._lock:
            model = self._models.get(name)
            if model is None:
                return
            records = model.begin_unload()
            self._touched.add(name)
        self._publication.show()
        users = [record.loaded for other, record in self._retirement.waiting if other in after and record.loaded]
        self._retirement.begin(name, records, users)

    def forget(self, name: ModelId, *, after: Sequence[ModelId] = ()) -> None:
        """As `unload`, and the model is in no index any more: the repositories don't have it."""
        with self._lock:
            if name in self._models:
                self._models[name].gone = True
        self.unload(name, after=after)

    def condemn(self, name: ModelId, loaded: V, reason: str) -> None:
        """A served version turned out to be broken for good: UNAVAILABLE with this reason from now on, and stopped."""
        with self._lock:
            model = self._models.get(name)
            records = [record for record in model.versions.values() if record.loaded is loaded] if model else []
            records = [record for record in records if record.state is State.READY]
            for record in records:
                record.state, record.reason, record.loaded = State.UNAVAILABLE, reason, None
            self._touched.add(name)
        if not records:
            return  # it was replaced or unloaded meanwhile
        self._publication.show()
        self._log.about(name).error(f"model '{name}' version {records[0].version} is UNAVAILABLE from now on: {reason}")
        loaded.retire()
        loaded.stop(_CONDEMNED_STOP_S)

    def abort(self) -> None:
        """Loads that have not begun yet are not begun any more; `load` returns soon."""
        self._stopping.set()

    def stop(self, timeout_s: float, loads_s: float) -> bool:
        """Unload everything. False when the time ran out.

        Args:
            loads_s: how long to wait for loads in work, which nothing can hurry; what they load is stopped too.
        """
        self.abort()
        deadline = monotonic() + timeout_s
        with self._lock:
            records = self._retirement.waiting
            for name, model in self._models.items():
                records += [(name, record) for record in model.begin_unload()]
            self._touched.update(self._models)
        self._publication.show()
        # Side by side: unloading a Python model is waiting for its process.
        with ThreadPoolExecutor(max(1, min(_UNLOAD_THREADS, len(records))), "unload") as threads:
            stopped = list(threads.map(lambda each: self._retirement.stop(each[0], each[1], deadline), records))
        loads_ended = self._wait_for_loads(min(loads_s, deadline - monotonic()))
        if loads_ended:  # else one of them may still want a thread
            self._loaders.shutdown(wait=False)
        return self._retirement.wait(deadline - monotonic()) and loads_ended and all(stopped)

    def wait_ended(self, names: Collection[ModelId], timeout_s: float) -> bool:
        """Wait until nothing of these models is on its way out any more. False when the time ran out."""
        return self._retirement.wait(timeout_s, names)

    def settle(self, timeout_s: float) -> bool:
        """Wait until nothing is being loaded or unloaded. False when the time ran out."""
        deadline = monotonic() + timeout_s
        return self._wait_for_loads(timeout_s) and self._retirement.wait(deadline - monotonic())

    def _wait_for_loads(self, timeout_s: float) -> bool:
        with self._loads_ended:
            return self._loads_ended.wait_for(lambda: not self._loads, max(0.0, timeout_s))

    def loaded(self) -> list[V]:
        """Every version that may have requests, also those that are not served any more."""
        with self._lock:
            records = [record for model in self._models.values() for record in model.versions.values()]
            records += [record for _, record in self._retirement.waiting if record not in records]
            return [record.loaded for record in records if record.loaded is not None]

    def wanted_ready(self) -> list[bool]:
        """For each version of each model that was asked for: whether it is ready. A model without any counts as not."""
        with self._lock:
            return [ready for model in self._models.values() if model.asked for ready in model_ready(model)]

    def _run(self, attempts: list[Attempt[V]], in_pool: bool) -> None:
        for attempt in attempts:
            if not attempt.left:
                self._finish(attempt)
        jobs = [(attempt, version) for attempt in attempts for version in attempt.work]
        if not in_pool:
            for job in jobs:
                self._work(*job)
            return
        # A load that fails is no exception here: what comes out is a bug, and must not be lost.
        for done in [self._loaders.submit(self._work, *job) for job in jobs]:
            done.result()

    def _work(self, attempt: Attempt[V], version: int) -> None:
        work_on(attempt, version, self._retries, self._stopping, self._log.about(attempt.name))
        with self._lock:
            attempt.left -= 1
            last = attempt.left == 0
        if last:
            self._finish(attempt)

    def _finish(self, attempt: Attempt[V]) -> None:
        """All versions of a load have been tried: serve all, or none of them."""
        with self._lock:
            if self._stopping.is_set():
                attempt.fail_all(CharoniaError(STOPPING))
            if not attempt.failures:
                replaced = attempt.switch(self._models[attempt.name])
            self._touched.add(attempt.name)
        if attempt.failures:
            self._give_up(attempt)
            return
        if replaced:
            self._publication.show()
        else:
            self._publication.announce()
        if attempt.work:
            self._log.about(attempt.name).info(f"successfully loaded '{attempt.name}'")
        for update in attempt.updates:
            update.commit()
        self._retirement.begin(attempt.name, replaced)
        self._condemn_dead(attempt)

    def _give_up(self, attempt: Attempt[V]) -> None:
        for update in attempt.updates:
            update.discard()
        with self._lock:
            loaded = [record for record in attempt.fresh.values() if record.loaded is not None]
            # A stop fails what is loaded too: that has its reason.
            for record in [record for record in loaded if record.version not in attempt.failures]:
                record.state, record.reason = State.UNAVAILABLE, "unloaded: another version of the model failed to load"
            self._touched.add(attempt.name)
        self._publication.announce()
        log = self._log.about(attempt.name)
        for version, error in sorted(attempt.failures.items()):
            log_errors(log, f"failed to load '{attempt.name}' version {version}", error)
        self._retirement.begin(attempt.name, loaded)

    def _condemn_dead(self, attempt: Attempt[V]) -> None:
        """Those that were given up before they were among the models."""
        for record in attempt.fresh.values():
            loaded = record.loaded
            if loaded is not None and loaded.failure is not None:
                self.condemn(attempt.name, loaded, loaded.failure)

    def _on_stopped(self, name: ModelId, record: VersionRecord[V], ended: bool) -> None:
        with self._lock:
            first, record.loaded = record.loaded is not None, None
            if record.state is State.UNLOADING:
                record.state, record.reason = State.UNAVAILABLE, UNLOADED
            self._touched.add(name)
        self._publication.announce()
        if ended and first:
            self._log.about(name).info(f"successfully unloaded '{name}' version {record.version}")

    def _publish(self) -> None:
        self._before_change()
        with self._lock:
            for name in self._touched:
                model = self._models.get(name)
                if model is None:
                    self._views.pop(name, None)
                else:
                    self._views[model.name] = ModelView.of(model)
            self._touched.clear()
            self.directory = Directory(dict(self._views), scanned=self._known)
        self._on_change()


def _known_of(model: ModelRecord[V]) -> tuple[object, ...]:
    """What a look at the repositories may change."""
    return model.unusable, model.gone, model.asked


def _in_use(model: ModelRecord[V]) -> bool:
    return model.asked or model.is_loaded
