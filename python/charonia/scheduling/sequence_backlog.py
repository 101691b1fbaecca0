"""The backlog: sequences that wait for a slot, first come first served, and how long they may."""

import heapq
from collections import OrderedDict
from collections.abc import Iterator
from itertools import count

from charonia.scheduling.sequence_line import LiveSequence


class Backlog:
    """Used under the scheduler's lock."""

    def __init__(self) -> None:
        self._sequences: OrderedDict[LiveSequence, None] = OrderedDict()
        self._deadlines: list[tuple[int, int, LiveSequence]] = []
        self._order = count()

    def __bool__(self) -> bool:
        return bool(self._sequences)

    @property
    def request_count(self) -> int:
        return sum(len(sequence.waiting) for sequence in self._sequences)

    def __iter__(self) -> Iterator[LiveSequence]:
        return iter(self._sequences)

    def add(self, sequence: LiveSequence) -> None:
        self._sequences[sequence] = None

    def discard(self, sequence: LiveSequence) -> None:
        self._sequences.pop(sequence, None)

    def first(self) -> LiveSequence | None:
        """The next to get a slot. One whose forerunner of the same id still lives waits for its end, and no other does.

        Else the two would be side by side in one instance, and a model that goes by the id would mix them.
        """
        return next((each for each in self._sequences if each.forerunner is None), None)

    def limit(self, sequence: LiveSequence, deadline_ns: int) -> None:
        """A sequence of the backlog has a request that waits no longer than this."""
        if not sequence.expires_ns or deadline_ns < sequence.expires_ns:
            sequence.expires_ns = deadline_ns
            heapq.heappush(self._deadlines, (deadline_ns, next(self._order), sequence))

    def expired(self, now_ns: int) -> list[LiveSequence]:
        """Those that have waited too long, which stay here."""
        found = []
        while (next_ns := self.next_deadline_ns()) is not None and next_ns <= now_ns:
            found.append(heapq.heappop(self._deadlines)[2])
        return found

    def next_deadline_ns(self) -> int | None:
        """When `expired` has something to tell; None for never."""
        deadlines = self._deadlines
        while deadlines and not self._is_due(*deadlines[0]):
            heapq.heappop(deadlines)
        return deadlines[0][0] if deadlines else None

    def _is_due(self, deadline_ns: int, _: int, sequence: LiveSequence) -> bool:
        return sequence in self._sequences and sequence.expires_ns == deadline_ns
