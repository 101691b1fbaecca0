"""Poll control: the repositories are looked at again and again, and what has changed in them is loaded or unloaded."""

import threading
import traceback
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial

from charonia.core.errors import CharoniaError
from charonia.core.log import Log
from charonia.core.model_id import ModelId
from charonia.core.protocols import OnDeath
from charonia.engine.model import ModelVersion
from charonia.repository.all_repositories import AllRepositories
from charonia.repository.fingerprint import Fingerprint
from charonia.repository.lifecycle import ModelLifecycle
from charonia.repository.operations import ModelOperations
from charonia.repository.remarks import Remarks
from charonia.repository.repositories import duplicate_reason
from charonia.repository.scan import Scan
from charonia.repository.source import Look, ModelSource, look_around, look_in


@dataclass(slots=True)
class _Seen:
    """What is known of the models: `latest` at the last look; `tried` at the last attempt to load, good or not."""

    latest: dict[ModelId, Fingerprint] = field(default_factory=dict)
    tried: dict[ModelId, Fingerprint] = field(default_factory=dict)


class RepositoryPolling:
    """Compares each look with the one before.

    A model is loaded once two looks in a row have seen the same files, so never while it is being copied, and unloaded
    once two looks have not found it. One that failed is tried again when its files change. Whatever takes long is done
    by threads of its own, so that no model keeps the others waiting.

    Args:
        threads: how many models are loaded side by side.
    """

    def __init__(
        self,
        repositories: AllRepositories,
        operations: ModelOperations,
        lifecycle: ModelLifecycle[ModelVersion],
        log: Log,
        remarks: Remarks,
        threads: int,
    ) -> None:
        self._repositories = repositories
        self._operations = operations
        self._lifecycle = lifecycle
        self._log = log
        self._remarks = remarks
        self._workers = ThreadPoolExecutor(threads, "poll-load")
        self._seen = _Seen()
        self._known: tuple[list[ModelId], dict[ModelId, str]] = ([], {})

    def begin(self, sources: dict[ModelId, ModelSource]) -> None:
        """These were tried by the start."""
        prints = {name: source.fingerprint for name, source in sources.items()}
        self._seen = _Seen(dict(prints), dict(prints))

    def look(self) -> list[Future[None]]:
        """Look once; gives what was begun by it."""
        try:
            found, sources = look_around(self._repositories)
        except CharoniaError as error:
            # Nothing is unloaded for it: a file system that is away for a moment has lost no model.
            self._log.error(f"the repositories can't be looked at: {error}")
            return []
        self._know(found)
        begun: list[Future[None]] = []
        for name in self._gone(sources):
            del self._seen.tried[name]
            begun.append(self._begin(name, partial(self._drop, name, name in found.duplicates)))
        changed = {source.id: source for source in self._changed(sources)}
        self._repositories.read_configs([each.remote for each in changed.values() if each.remote is not None])
        look = look_in(changed)  # the steps of an ensemble that are being copied still wait for the next look
        for name, source in changed.items():
            self._seen.tried[name] = source.fingerprint
            begun.append(self._begin(name, partial(self._load, name, look)))
        self._seen.latest = {name: source.fingerprint for name, source in sources.items()}
        return begun

    def close(self) -> None:
        """After the last look. What is in work goes on."""
        self._workers.shutdown(wait=False, cancel_futures=True)

    def _changed(self, sources: dict[ModelId, ModelSource]) -> list[ModelSource]:
        """Other than at the last attempt, the same as at the last look, and not being loaded just now."""
        tried, latest = self._seen.tried, self._seen.latest
        return [
            source
            for name, source in sources.items()
            if tried.get(name) != source.fingerprint == latest.get(name) and not self._operations.busy(name)
        ]

    def _gone(self, sources: dict[ModelId, ModelSource]) -> list[ModelId]:
        seen = self._seen
        missing = [name for name in seen.tried if name not in sources and name not in seen.latest]
        return [name for name in missing if not self._operations.busy(name)]

    def _know(self, found: Scan) -> None:
        unusable = {name: duplicate_reason(name, where) for name, where in found.duplicates.items()}
        self._remarks.warn((*found.warnings, *unusable.values()))
        known = (list(found.models), unusable)
        if known != self._known:
            self._known = known
            self._lifecycle.know(*known)

    def _begin(self, name: ModelId, work: Callable[[], None]) -> Future[None]:
        def run() -> None:
            try:
                work()
            except Exception:  # nobody waits for the result, so that it would be lost
                self._log.about(name).error(f"polling could not load or unload '{name}': {traceback.format_exc()}")

        return self._workers.submit(run)

    def _load(self, name: ModelId, look: Look) -> None:
        try:
            self._operations.load([name], look)
        except CharoniaError as error:
            self._log.verbose(str(error))  # the reason is in the log already

    def _drop(self, name: ModelId, is_duplicate: bool) -> None:
        if is_duplicate:
            self._operations.unload(name)
        else:
            self._log.about(name).info(f"model '{name}' is in no repository any more and is unloaded")
            self._operations.forget(name)


class Poller:
    """Has the polling look every `interval_s` seconds, on a thread of its own, until `stop`.

    Args:
        on_death: told when the thread ends by an exception, which is a bug.
    """

    def __init__(self, polling: RepositoryPolling, interval_s: float, on_death: OnDeath) -> None:
        self._polling = polling
        self._interval_s = interval_s
        self._on_death = on_death
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="poll", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Look no more. Returns at once; a look that is in work goes on."""
        self._stopping.set()

    def join(self, timeout_s: float) -> None:
        """Wait for the end of a look that is in work, after `stop`."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)

    def _run(self) -> None:
        try:
            while not self._stopping.wait(self._interval_s):
                self._polling.look()
        except BaseException as error:
            self._on_death("poll", error)
        finally:
            self._polling.close()
