"""Which sequences have nothing to do, and since when."""

from collections import OrderedDict
from collections.abc import Iterator

from charonia.scheduling.sequence_line import LiveSequence


class IdleSequences:
    """Used under the scheduler's lock.

    Args:
        limit_us: how long a sequence may be idle before it is taken for over, in microseconds.
    """

    def __init__(self, limit_us: int) -> None:
        self._limit_ns = limit_us * 1000
        self._since: OrderedDict[LiveSequence, int] = OrderedDict()

    def add(self, sequence: LiveSequence, now_ns: int) -> None:
        self._since[sequence] = now_ns
        self._since.move_to_end(sequence)

    def discard(self, sequence: LiveSequence) -> None:
        self._since.pop(sequence, None)

    def expired(self, now_ns: int) -> Iterator[LiveSequence]:
        """One after the other; each is discarded by the caller before it asks for the next."""
        while (deadline_ns := self.next_deadline_ns()) is not None and deadline_ns <= now_ns:
            yield next(iter(self._since))

    def next_deadline_ns(self) -> int | None:
        """When the first has been idle for too long; None when none is idle."""
        for since_ns in self._since.values():
            return since_ns + self._limit_ns
        return None

    def longest(self) -> LiveSequence | None:
        return next(iter(self._since), None)
