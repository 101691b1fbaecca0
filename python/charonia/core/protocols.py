"""What the parts ask of one another across folders."""

from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from charonia.core.overrides import LoadOverrides
from charonia.core.request import InferRequest

OnDeath = Callable[[str, BaseException], None]
"""Told the name and the exception of a thread of ours that ended by a bug: the server is not live any more. From that
thread, so it must not wait for it."""


class Submitter(Protocol):
    """Takes requests into the engine.

    `submit` never raises and never blocks: from the call on the engine owns the request, and every outcome,
    also a refusal, arrives at the request's channel.
    """

    def submit(self, request: InferRequest) -> None: ...

    def submit_all(self, requests: Sequence[InferRequest]) -> None:
        """As `submit` for each of them, in their order; cheaper for those that go to one model. From a thread that has
        the time to execute a quick model itself."""
        ...

    def submit_waiting(self, request: InferRequest) -> None:
        """As `submit`, from a thread that has nothing to do before the answer: it may execute the model itself, which
        saves waking another thread, and blocks meanwhile."""
        ...


class OtherModels(Protocol):
    """What a model may do with others beside calling them. Loading takes long: never on a thread that serves others."""

    def load(self, name: str, overrides: LoadOverrides) -> None:
        """Raises CharoniaError with the reason."""

    def unload(self, name: str, dependents: bool) -> None:
        """Raises CharoniaError with the reason."""

    def is_ready(self, name: str, version: int) -> bool:
        """False also for a model that is not known. `version` may be ANY_VERSION."""


class Bell(Protocol):
    """What an idle instance waits at. A ring that comes before the wait is not lost."""

    def poll(self) -> Sequence[InferRequest]:
        """As `wait`, but only looks: what a front end keeps for this waiter. Uses up no ring."""
        ...

    def wait(self, timeout_s: float | None) -> Sequence[InferRequest]:
        """Return after a ring, a time-out, or new requests; may return early. Called by instance threads only.

        Requests that a front end hands straight to the waiter are returned; the caller owns and submits them.
        """
        ...

    def ring(self, count: int = 1) -> None:
        """Wake up to `count` waiters, now or when they come. Never blocks."""
        ...


class RateShare(Protocol):
    """An instance before the rate limiter; see `scheduling.rate_share.Share`."""

    overlaps: bool

    def begin(self, requests: Sequence[InferRequest]) -> None: ...
    def free(self) -> None: ...
    def insist(self) -> None: ...
    def leave(self) -> None: ...


class BatchSource(Protocol):
    """Where an instance pulls its work from: the pulling side of a scheduler."""

    def next_batch(self, bell: Bell, seat: object) -> Sequence[InferRequest] | None:
        """Block until there is a batch for this instance, which the caller owns then; None when there is no more.

        Args:
            seat: who asks; the same object each time. If it has a lock named `driving`, the caller holds that; it is
                free while this waits for work: others may drive the instance then. If it has an attribute named `share`
                that is not None, the batch is formed when the rate limiter gives that its turn.
        """
        ...


OnExecuted = Callable[[Sequence[InferRequest], int, int], None]
"""Told of a batch that was executed: its requests, the start and the end, on the server's clock. From the thread that
drives the instance."""


@runtime_checkable
class MeasuringSource(BatchSource, Protocol):
    """A source that may want to know how long its batches took.

    Attributes:
        on_executed: None where nobody does.
    """

    on_executed: OnExecuted | None
