"""The backlog: sequences that wait for a slot, first come first served, and how long they may."""

import heapq
from collections.abc import Iterator
from itertools import count

from charonia.scheduling.sequence_line import LiveSequence


class Backlog:
    """Used under the scheduler's lock."""

    def __init__(self) -> None:
        self._sequences: dict[LiveSequence, int] = {}  # with the number of each in the order of arrival
        self._line: list[tuple[int, LiveSequence]] = []  # a heap of those that a slot would do
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
        self._sequences[sequence] = next(self._order)
        self.line_up(sequence)

    def line_up(self, sequence: LiveSequence) -> None:
        """The one before it of the same id may be over now: then it wants a slot, in the place that it came for."""
        if sequence.before is None:
            heapq.heappush(self._line, (self._sequences[sequence], sequence))

    def discard(self, sequence: LiveSequence) -> None:
        self._sequences.pop(sequence, None)
        self._sweep()

    def _sweep(self) -> None:
        """Those that were cancelled are skipped at the front; behind one that waits for long they must not pile up."""
        most = 2 * len(self._sequences) + 64
        if len(self._line) > most:
            self._line = [entry for entry in self._line if entry[1] in self._sequences]
            heapq.heapify(self._line)
        if len(self._deadlines) > most:
            self._deadlines = [entry for entry in self._deadlines if self._is_due(*entry)]
            heapq.heapify(self._deadlines)

    def first(self) -> LiveSequence | None:
        """The next to get a slot."""
        while self._line and self._line[0][1] not in self._sequences:
            heapq.heappop(self._line)
        return self._line[0][1] if self._line else None

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
