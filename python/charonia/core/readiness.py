"""Models that have a word on their own readiness."""

from collections.abc import Iterable
from concurrent.futures import Future, wait
from typing import Protocol, runtime_checkable

# A model that has not said by then whether it is ready is not. Triton's.
ANSWER_S = 5.0


@runtime_checkable
class TellsReadiness(Protocol):
    """An instance of a model that may have a word on its own readiness.

    Attributes:
        tells_ready: whether it has.
    """

    @property
    def tells_ready(self) -> bool: ...

    def ask_ready(self) -> "Future[bool]":
        """Ask the model, beside what it executes. Never blocks; its code may take its time, or never answer."""
        ...


def all_ready(tellers: Iterable[TellsReadiness], answer_s: float = ANSWER_S) -> bool:
    """Whether all say so, which this waits for."""
    done, late = wait([teller.ask_ready() for teller in tellers], answer_s)
    return not late and all(answer.result() for answer in done)
