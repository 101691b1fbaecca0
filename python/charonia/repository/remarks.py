"""Warnings that are said once, however often the repositories are looked at."""

import threading
from collections.abc import Iterable

from charonia.core.log import Log


class Remarks:
    """Writes each message to the log the first time that it comes."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._lock = threading.Lock()
        self._said: set[str] = set()

    def warn(self, messages: Iterable[object]) -> None:
        for message in map(str, messages):
            with self._lock:
                new = message not in self._said
                self._said.add(message)
            if new:
                self._log.warning(message)
