"""One operation at a time on each model, in the order in which they were asked for."""

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from charonia.core.errors import InvalidArgumentError


class Turn:
    """One operation's place in the queues of its models.

    Attributes:
        within: the turn of the operation that waits for this one; None for most.
        is_over: whether it has been given back.
    """

    def __init__(self, names: Sequence[str], within: "Turn | None" = None) -> None:
        self.names = names
        self.within = within
        self.is_over = False
        self.has_come = threading.Event()


class Turns:
    """Queues by name. A plain lock would let threads in by chance.

    An operation joins all its queues at the same moment. So of two operations that share models, one is the first in
    all of them, and none waits for the other in a circle; only an operation that waits for one within it needs a look.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._queues: dict[str, deque[Turn]] = {}

    @contextmanager
    def of(self, *names: str, within: Turn | None = None) -> Iterator[Turn]:
        """Wait for the turn of these models, and keep it until the end of the block.

        Args:
            within: the turn of an operation that ends only after this block.

        Raises:
            InvalidArgumentError: the wait would never end: that operation is in the way, or one that waits for it.
        """
        turn = self._join(tuple(dict.fromkeys(names)), within)
        try:
            turn.has_come.wait()
            yield turn
        finally:  # also without having had the turn: Ctrl-C ends the wait of an embedded server's caller
            self._leave(turn)

    def busy(self, name: str) -> bool:
        """Whether somebody has this model's turn."""
        with self._lock:
            return name in self._queues

    def waiting(self, name: str) -> int:
        """How many wait for it."""
        with self._lock:
            return max(0, len(self._queues.get(name, ())) - 1)

    def _join(self, names: Sequence[str], within: Turn | None) -> Turn:
        with self._lock:
            turn = Turn(names, within if within is not None and not within.is_over else None)
            if turn.within is not None:
                self._refuse_circle(turn)
            for name in names:
                self._queues.setdefault(name, deque()).append(turn)
            self._call(turn)
        return turn

    def _leave(self, turn: Turn) -> None:
        with self._lock:
            turn.is_over = True
            for name in turn.names:
                queue = self._queues[name]
                queue.remove(turn)
                if queue:
                    self._call(queue[0])
                else:
                    del self._queues[name]

    def _call(self, turn: Turn) -> None:
        """It comes once it is the first in each of its queues."""
        if all(self._queues[name][0] is turn for name in turn.names):
            turn.has_come.set()

    def _refuse_circle(self, turn: Turn) -> None:
        """Whoever is in the way of `turn` must not wait for it."""
        outer: list[Turn] = []
        each = turn.within
        while each is not None:
            outer.append(each)
            each = each.within
        for name in turn.names:
            if self._leads_to(outer, self._queues.get(name, ())):
                raise InvalidArgumentError(
                    f"model '{name}' can't be loaded or unloaded from here: an operation on it waits for this one. "
                    "While a model is being loaded, it can't load or unload itself, nor what is loaded together with it"
                )

    def _leads_to(self, goals: Sequence[Turn], start: Iterable[Turn]) -> bool:
        seen: list[Turn] = []
        waiting = list(start)
        while waiting:
            turn = waiting.pop()
            if turn in goals:
                return True
            if turn not in seen:
                seen.append(turn)
                waiting += self._waited_for(turn)
        return False

    def _waited_for(self, turn: Turn) -> Iterator[Turn]:
        """Those before it in its queues, and those within it."""
        for name in turn.names:
            for other in self._queues[name]:
                if other is turn:
                    break
                yield other
        for queue in self._queues.values():
            yield from (other for other in queue if other.within is turn)
