"""What the API needs of the place where a model runs: its own process, or the server's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .messages import InferenceRequest, InferenceResponse

INFO, WARNING, ERROR, VERBOSE = "INFO", "WARNING", "ERROR", "VERBOSE"


class ResponseSink(Protocol):
    """Takes the responses of a call to another model, on a thread of the runtime: must not block and must not raise."""

    def __call__(self, response: InferenceResponse | None, final: bool) -> None:
        """`response` is None for an end that no response comes with; errors are responses too."""


class OutgoingCall(Protocol):
    """A call to another model that is under way. Any thread may use it."""

    def taken(self, count: int) -> None:
        """The reader has taken so many responses: as many more may come. Until then they are held back where they are
        made, beyond the first few."""

    def cancel(self) -> None:
        """Nobody wants more responses; the sink still gets the end, an error with the code CANCELLED."""


class Runtime(Protocol):
    """One for each model instance."""

    model_dir: str

    def send(self, request: InferenceRequest, response: InferenceResponse | None, final: bool) -> None:
        """Send one response of a request that was not answered by what `execute` returned, or its bare end (None).

        Any thread may call it. Blocks while the reader of the responses is too far behind; never when the request was
        cancelled. Outputs are taken before it returns. Raises TritonModelException: the outputs can't be sent.
        """

    def infer(self, request: InferenceRequest, decoupled: bool, sink: ResponseSink) -> OutgoingCall:
        """Have another model execute `request`; its responses come to `sink`, the last one with `final`.

        Never blocks for long and may be called from any thread; refusals arrive at the sink too. Its inputs are taken
        before it returns.
        """

    def log(self, level: str, message: str, file: str, line: int) -> None:
        """Never blocks for long, never raises."""

    def call(self, operation: str, *arguments: Any) -> Any:
        """Ask the server and wait for the answer. Raises TritonModelException with the server's reason."""

    def cast(self, operation: str, *arguments: Any) -> None:
        """Tell the server something, without waiting until it has been taken; that is before the batch is answered."""
