"""What the API needs of the place where a model runs: its own process, or the server's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, Protocol

if TYPE_CHECKING:
    from .messages import InferenceRequest
    from .responses import InferenceResponse
    from .senders import InferenceResponseSender

INFO, WARNING, ERROR, VERBOSE = "INFO", "WARNING", "ERROR", "VERBOSE"


class ResponseSink(Protocol):
    """Takes the responses of a call to another model, on a thread of the runtime: must not block and must not raise.

    Attributes:
        blocks: the thread that calls waits for the end, so the inputs of the call don't change meanwhile.
    """

    blocks: bool

    def __call__(self, response: InferenceResponse | None, final: bool) -> None:
        """`response` is None for an end that no response comes with; errors are responses too."""


class OutgoingCall(Protocol):
    """A call to another model that is under way. Any thread may use it."""

    def attend(self, is_done: Callable[[], bool]) -> None:
        """The calling thread has nothing to do until `is_done`: the runtime may use it to read what comes, which saves
        the way over a thread of its own. May return before."""

    def taken(self, count: int) -> None:
        """The reader has taken so many responses: as many more may come. Until then they are held back where they are
        made, beyond the first few."""

    def cancel(self) -> None:
        """Nobody wants more responses; the sink still gets the end, an error with the code CANCELLED where the other
        model had not begun."""


class Runtime(Protocol):
    """One for each model instance.

    Attributes:
        decoupled: whether the model may send any number of responses; known before `initialize` is called.
        model_name: known from then on too.
    """

    model_dir: str
    model_name: str
    decoupled: bool

    def send(self, sender: InferenceResponseSender, response: InferenceResponse | None, final: bool) -> None:
        """Send one response of a request that was not answered by what `execute` returned, or its bare end (None).

        Any thread may call it. Outputs are taken before it returns. Raises TritonModelException: they can't be sent.
        """

    def wait_for_room(self, sender: InferenceResponseSender) -> None:
        """Block while the reader of the responses is too far behind; never when the request was cancelled. Called
        before `send` while `sender._ahead` is not 0."""

    def dropped(self, sender: InferenceResponseSender) -> None:
        """The model has let go of a request that still waits for a response. Out of the garbage collector, so maybe in
        the midst of anything: waits for no lock, never raises."""

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
