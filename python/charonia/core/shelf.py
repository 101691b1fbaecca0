"""Where a front end keeps answers that it gives again by itself; `frontend.wire_shelf.WireShelf` is the real one."""

from collections.abc import Callable, Sequence
from typing import Protocol

from charonia.core.request import Reply


class KeptAnswer(Protocol):
    """An answer on a shelf. It is given until this object is gone."""

    def take_used(self) -> bool:
        """Whether it was given since this was asked last."""
        ...


class Shelf(Protocol):
    """Answers of one model version, to equal requests. Any thread may use it."""

    def keep(self, reply: Reply) -> KeptAnswer | None:
        """Give what `reply` says again to requests that say what its request says, before anybody sees them. None where
        the front end can't know that: its request came another way, or is told apart by more than its tensors.

        The outputs are `owned`.
        """
        ...

    def take_given(self) -> Sequence[tuple[int, int, int]]:
        """What was given since this was asked last: how many answers, in how many nanoseconds from arrival to answer in
        sum, and how many of these looking them up; one such triple for each order of magnitude."""
        ...


NewShelf = Callable[[], Shelf | None]
"""None where no front end has shelves."""


def no_shelf() -> None:
    """A `NewShelf`."""
