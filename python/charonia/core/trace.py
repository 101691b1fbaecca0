"""What the parts of the server know of the trace of a request. Most requests have none."""

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from charonia.core.request import InferRequest


class RequestTrace(Protocol):
    """The trace of one request; `observe.traces.record.TracedRequest` is the real one. Any thread may call it.

    It sees the replies by itself, so nobody has to tell it of answers, errors and the end.
    """

    @property
    def number(self) -> int:
        """Unique among the traced requests of the server, above 0."""
        ...

    @property
    def handle(self) -> tuple[int, str | None]:
        """What a Python model gets of it: its number, and its context for other tracers (None where there is none)."""
        ...

    def follow(self, request: "InferRequest", *, is_step: bool = False) -> None:
        """Trace `request` too, which this one's request has led to: a step of an ensemble, or a call by a model."""

    def activity(self, name: str, ns: int) -> None:
        """Note something of a backend's own. A name that ends in _START begins a span, one in _END ends it."""
