"""Many objects to files, side by side. A file is under its name once all of it is there."""

import os
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from tempfile import mkstemp
from typing import TypeVar

from charonia.core.clock import Clock
from charonia.core.errors import UnavailableError
from charonia.core.log import Log
from charonia.repository.remote.retries import MissingError, SteadyStore
from charonia.repository.remote.stores import Store, StoredObject

# Of all models together. Each waits for the network, and they share one thread that reads from it.
_THREADS = 16
_BETWEEN_LINES_NS = 5_000_000_000
# A model that is still being written when it was taken so often will be seen by the next look.
_ROUNDS = 3

T = TypeVar("T")

Objects = Mapping[str, StoredObject]
"""By path relative to the model's folder."""


class Downloads:
    """All downloads of one server.

    Args:
        stopping: once it is set, downloads end with an error.
    """

    def __init__(self, clock: Clock, stopping: threading.Event) -> None:
        self._clock = clock
        self._stopping = stopping
        self._lock = threading.Lock()
        self._threads: ThreadPoolExecutor | None = None

    def take(
        self, what: str, store: SteadyStore, wanted: Objects, to: Path, relist: Callable[[], Objects], log: Log
    ) -> None:
        """Bring all of `wanted` into the folder `to`.

        Args:
            what: what is brought, for messages: "model 'm' version 1".
            relist: the same objects as they are now. What has changed since it was listed is taken once more.

        Raises:
            UnavailableError: an object can't be had, they change all the time, or the server stops.
            CharoniaError: as `SteadyStore.call`.
            OSError: a file can't be written.
        """
        if not wanted:
            return
        progress = _Progress(what, store.address.host, wanted, self._clock, log)
        left = wanted
        for _ in range(_ROUNDS):
            missing = self._take_all(store, left, to, progress)
            now = relist()
            gone = [path for path in left if path not in now]
            if gone:
                raise UnavailableError(
                    f"{what}: '{gone[0]}' was removed from {store.address.written} while it was downloaded"
                )
            left = {path: now[path] for path, stored in left.items() if now[path] != stored or path in missing}
            if not left:
                progress.end()
                return
            log.verbose(f"{what}: {len(left)} files have changed while they were downloaded, and are taken again")
        raise UnavailableError(
            f"{what}: '{next(iter(left))}' in {store.address.written} changed while it was downloaded, {_ROUNDS} times"
        )

    def each(self, work: Callable[[T], object], items: Iterable[T]) -> None:
        """Do it for all of them, side by side. What one raises is left to whoever does it again."""
        for job in [self._pool().submit(work, item) for item in items]:
            job.exception()

    def close(self) -> None:
        """Begin no more; after `stopping`, those in work end soon."""
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is not None:
            threads.shutdown(wait=False, cancel_futures=True)

    def _take_all(self, store: SteadyStore, wanted: Objects, to: Path, progress: "_Progress") -> set[str]:
        """Gives those that were not there any more, or not as large as listed."""
        jobs: dict[str, Future[bool]] = {}
        for path, stored in wanted.items():
            jobs[path] = self._pool().submit(self._take_one, store, stored, to / path, progress)
        try:
            return {path for path, job in jobs.items() if not job.result()}
        finally:
            for job in jobs.values():
                job.cancel()
            for job in jobs.values():  # nobody writes into the folder after this
                if not job.cancelled():
                    job.exception()

    def _take_one(self, store: SteadyStore, stored: StoredObject, to: Path, progress: "_Progress") -> bool:
        to.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = mkstemp(dir=to.parent, prefix=".part-")
        os.close(descriptor)
        part = Path(name)
        try:
            store.call(f"download '{stored.key}'", lambda each: self._fetch(each, stored, part, progress))
            if part.stat().st_size != stored.size:
                return False
            os.replace(part, to)
        except MissingError:
            return False
        finally:
            part.unlink(missing_ok=True)
        progress.file_done()
        return True

    def _fetch(self, store: Store, stored: StoredObject, part: Path, progress: "_Progress") -> None:
        came = 0

        def on_bytes(count: int) -> None:
            nonlocal came
            came += count
            progress.add(count)
            self._refuse_when_stopping(stored)

        self._refuse_when_stopping(stored)
        try:
            store.fetch(stored.key, part, on_bytes)
        except BaseException:
            progress.add(-came)  # it begins anew
            raise

    def _refuse_when_stopping(self, stored: StoredObject) -> None:
        if self._stopping.is_set():
            raise UnavailableError(f"'{stored.key}' is not downloaded: the server is stopping")

    def _pool(self) -> ThreadPoolExecutor:
        with self._lock:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_THREADS, "download")
            return self._threads


class _Progress:
    """Tells the log how far it is, at most every few seconds."""

    def __init__(self, what: str, host: str, wanted: Objects, clock: Clock, log: Log) -> None:
        self._what = f"{what} from {host}"
        self._files = len(wanted)
        self._bytes = sum(stored.size for stored in wanted.values())
        self._clock = clock
        self._log = log
        self._lock = threading.Lock()
        self._files_done = 0
        self._bytes_done = 0
        self._started_ns = self._told_ns = clock.now_ns()

    def add(self, count: int) -> None:
        with self._lock:
            self._bytes_done += count
            now_ns = self._clock.now_ns()
            if now_ns - self._told_ns < _BETWEEN_LINES_NS:
                return
            self._told_ns = now_ns
        self._log.info(
            f"downloading {self._what}: {_shown(self._bytes_done)} of {_shown(self._bytes)}, {self._files_done} of "
            f"{self._files} files, {self._seconds()}"
        )

    def file_done(self) -> None:
        with self._lock:
            self._files_done += 1

    def end(self) -> None:
        files = "1 file" if self._files == 1 else f"{self._files} files"
        self._log.info(f"downloaded {self._what}: {files}, {_shown(self._bytes)} in {self._seconds()}")

    def _seconds(self) -> str:
        return f"{(self._clock.now_ns() - self._started_ns) / 1e9:.1f} s"


def _shown(size: int) -> str:
    for unit, bytes_of in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size >= bytes_of:
            return f"{size / bytes_of:.1f} {unit}"
    return f"{size} bytes"
