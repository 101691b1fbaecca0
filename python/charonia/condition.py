"""Whether a server is live and ready, and how the wire, which is asked for it, gets to know that, and what it may
answer by itself."""

import threading
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING

from charonia.core.log import Log
from charonia.core.shelf import Shelf
from charonia.engine.model import ModelVersion
from charonia.repository.directory import Directory
from charonia.repository.lifecycle import ModelLifecycle
from charonia.repository.readiness import readiness_table, server_ready

if TYPE_CHECKING:
    from charonia.frontend.doors import Doors


class Condition:
    """Any thread may use it. Each change is published.

    Args:
        lifecycle: gives the states of the models.

    Attributes:
        strict: `--strict-readiness`.
        exiting: set once the stop has begun.
    """

    def __init__(self, lifecycle: Callable[[], ModelLifecycle[ModelVersion]], log: Log, *, strict: bool) -> None:
        self.strict = strict
        self.exiting = threading.Event()
        self._lifecycle = lifecycle
        self._log = log
        self._dead: list[str] = []
        self._loaded = False
        self._leaving = False
        self._doors: Doors | None = None
        self._publishing = threading.Lock()

    @property
    def live(self) -> bool:
        return not self._dead

    @property
    def ready(self) -> bool:
        return server_ready(
            live=self.live,
            loaded=self._loaded,
            exiting=self._leaving or self.exiting.is_set(),
            strict=self.strict,
            wanted=self._lifecycle().wanted_ready(),
        )

    def loaded(self) -> None:
        """The models of the start have been tried."""
        self._loaded = True
        self.publish()

    def leaving(self) -> None:
        """Not ready from now on, though everything is served."""
        self._leaving = True
        self.publish()

    def died(self, name: str, error: BaseException) -> None:
        """A thread of ours ended by a bug: the server goes on as well as it can, and is not live any more."""
        self._dead.append(name)
        self._log.error(f"thread '{name}' ended by an error, the server is not live any more: {error!r}")
        self._log.error("".join(traceback.format_exception(error)))
        self.publish()

    def start_failed(self, reason: str) -> None:
        """`--exit-on-error=false` keeps the server up: it answers, and is not live."""
        self._dead.append("start")
        self._log.error(f"the start failed, and the server stays up, not live, as --exit-on-error=false says: {reason}")
        self.publish()

    def publish_at(self, doors: "Doors") -> None:
        """From now on."""
        self._doors = doors
        self.publish()

    def changing(self) -> None:
        """The models are about to change: until `changed`, the wire answers nothing by what it knows of them."""
        if self._doors is not None:
            self._doors.change(begun=True)

    def changed(self) -> None:
        """The wire knows of the change when this returns."""
        self.publish()
        if self._doors is not None:
            self._doors.change(begun=False)

    def publish(self) -> None:
        """Give the wire the present state. Under a lock, so that an older state never overtakes a newer one."""
        doors = self._doors
        if doors is None:
            return
        with self._publishing:
            models = self._lifecycle().directory
            asks = any(version.readiness_tellers for version in models.loaded())
            doors.publish(self.live, self.ready, readiness_table(models), asks, _shelves(models))


def _shelves(models: Directory[ModelVersion]) -> dict[tuple[str, str], Shelf]:
    """What the front end may answer by itself, by the names of `readiness_table`."""
    found: dict[tuple[str, str], Shelf] = {}
    for name, model in models.named.items():
        for version in model.versions:  # the last one is the default
            found.pop((name, ""), None)
            shelf = version.shelf_to_publish()
            if shelf is not None:
                found[name, version.version_text] = found[name, ""] = shelf
    return found
