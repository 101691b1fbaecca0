"""Versions on their way out: no new requests, what was accepted is answered, then they end."""

import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from time import monotonic
from traceback import format_exc
from typing import Generic

from charonia.core.log import Log
from charonia.core.model_id import ModelId
from charonia.repository.states import V, VersionRecord

# A version that was replaced finishes what it accepted, however long that takes.
_PATIENCE_S = 3600.0

Stopped = Callable[[ModelId, VersionRecord[V], bool], None]
"""Told the model's name, the record, and whether all of the version has ended."""


class Retirement(Generic[V]):
    """The versions of all models that were replaced or unloaded and still have requests.

    Args:
        on_stopped: called by the thread that stopped a version; may come twice for the same one.
    """

    def __init__(self, on_stopped: Stopped[V], log: Log) -> None:
        self._on_stopped = on_stopped
        self._log = log
        self._changed = threading.Condition()
        self._waiting: list[tuple[ModelId, VersionRecord[V]]] = []

    def begin(self, name: ModelId, records: Iterable[VersionRecord[V]], users: Sequence[V] = ()) -> None:
        """Stop versions in the background. The caller has published that they are not to be asked any more.

        Args:
            users: versions that are leaving too, and ask these for what they have accepted: it is answered first.
        """
        for record in records:
            with self._changed:
                self._waiting.append((name, record))
            threading.Thread(target=self._run, args=(name, record, users), name=f"unload-{name}", daemon=True).start()

    def stop(self, name: ModelId, record: VersionRecord[V], deadline: float) -> bool:
        """Stop one version now. False when it was still busy at the deadline, or failed to stop; it is left then."""
        loaded = record.loaded
        if loaded is None:
            return True
        stopped = False
        try:
            loaded.retire()
            loaded.wait_idle(max(0.0, deadline - monotonic()))
            stopped = loaded.stop(max(0.0, deadline - monotonic()))
        except Exception:  # of a backend: it must not keep other versions from being stopped
            self._log.about(name).error(f"unloading '{name}' version {record.version} failed by a bug: {format_exc()}")
        self._on_stopped(name, record, stopped)
        return stopped

    @property
    def waiting(self) -> list[tuple[ModelId, VersionRecord[V]]]:
        """By the name of the model, what has not ended yet."""
        with self._changed:
            return list(self._waiting)

    def wait(self, timeout_s: float, names: Collection[ModelId] | None = None) -> bool:
        """Wait until there is none left, of these models where they are given. False when the time ran out."""

        def none_left() -> bool:
            return not any(names is None or name in names for name, _ in self._waiting)

        with self._changed:
            return self._changed.wait_for(none_left, max(0.0, timeout_s))

    def _run(self, name: ModelId, record: VersionRecord[V], users: Sequence[V]) -> None:
        deadline = monotonic() + _PATIENCE_S
        try:
            for user in users:
                user.retire()
                user.wait_idle(max(0.0, deadline - monotonic()))
            self.stop(name, record, deadline)
        finally:
            with self._changed:
                self._waiting.remove((name, record))
                self._changed.notify_all()
