"""The interface of schedulers.

Who owns a request: the caller until `enqueue` returns; the scheduler until `next_batch` hands it out or it is settled
because it was cancelled or timed out; then whoever called `next_batch`.
"""

from collections.abc import Iterable, Sequence
from typing import Protocol, runtime_checkable

from charonia.core.protocols import Bell
from charonia.core.request import InferRequest


class Scheduler(Protocol):
    """Idle instances pull batches from it; one scheduler a model version."""

    def enqueue(self, request: InferRequest) -> None:
        """Take the request over. Never blocks.

        Raises:
            QueueFullError: a limit is reached; the caller still owns the request.
            UnavailableError: the scheduler was stopped.
        """

    def next_batch(self, bell: Bell, seat: object) -> Sequence[InferRequest] | None:
        """Block until the policy releases a batch for this instance; None after `stop` or after its `dismiss`."""

    def expect(self, seats: Iterable[object]) -> None:
        """These instances are about to pull. Called before the first `next_batch` of each."""

    def lost(self, seat: object) -> None:
        """The process of this instance died: what the model knew of its sequences is gone. From any thread."""

    def dismiss(self, seats: Iterable[object]) -> None:
        """These instances get no more batches: the next `next_batch` of each gives None, and is its last."""

    def hasten(self) -> None:
        """From now on no request waits for others to come: the last ones have come, or nearly so."""

    def cancel(self, request: InferRequest) -> None:
        """Settle the request with CancelledError if it is still waiting here."""

    @property
    def pending_count(self) -> int:
        """Requests waiting."""

    def stop(self, why: str | None = None) -> None:
        """Settle what waits with UnavailableError, and end every `next_batch`.

        Args:
            why: the model is unloaded, for those who wait; None where somebody has asked for it.
        """


@runtime_checkable
class SequenceEnder(Protocol):
    """A scheduler of sequences, which may be ended from outside."""

    def end_sequence(self, correlation_id: int | str) -> None:
        """Nobody goes on with this sequence: it ends as if it were cancelled. An unknown one is no error."""
