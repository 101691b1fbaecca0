"""Warnings about the repositories that are said once, however often they are looked at."""

from collections.abc import Iterable

from charonia.core.log import Log


class Remarks:
    """Writes what a look has found and the look before it had not. One thread at a time looks."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._said: set[str] = set()

    def warn(self, messages: Iterable[object]) -> None:
        """All warnings of one look: what is not among them any more is said again when it comes back."""
        found = dict.fromkeys(map(str, messages))
        for message in found:
            if message not in self._said:
                self._log.warning(message)
        self._said = set(found)
