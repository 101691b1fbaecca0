"""One request on its way through an ensemble's graph. Knows no thread and no model: it is told of replies, and tells
which steps are ready and what can be answered."""

import threading
from collections.abc import Callable

from charonia.core.errors import CharoniaError, InvalidArgumentError
from charonia.core.request import InferRequest, Reply
from charonia.core.tensor import Tensor
from charonia.observe.stamps import Stamps
from charonia.pipelines.graph import Plan, StepPlan
from charonia.pipelines.marks import parameters_of
from charonia.pipelines.outlet import Outlet
from charonia.pipelines.strand import Slot, StepFailure, Strand

Stream = Outlet[tuple["Run", Reply]]
HasRoom = Callable[[], bool]

# As many responses may be on their way through later steps: enough to keep these busy, whatever they batch.
OPEN_STRANDS = 64
# With more on their way, those that all others wait for go on. Of each of them so many more may come.
_LEADING = 8


class Progress:
    """What replies have brought about, to be done once no lock is held.

    Attributes:
        ready: steps that have all their inputs, in order.
        answers: the final replies of runs that have but one.
        streams: runs of which there are answers in `Run.stream`.
        failures: runs that have ended by the error of a step, with both, and whether the step failed: a decoupled one
            may answer with an error and end well.
    """

    __slots__ = ("answers", "failures", "ready", "streams")

    def __init__(self) -> None:
        self.ready: list[tuple[Strand, StepPlan]] = []
        self.answers: list[tuple[Run, Reply]] = []
        self.streams: list[Run] = []
        self.failures: list[tuple[Run, StepPlan, CharoniaError, bool]] = []


class Run:
    """The state of one request. Its methods hold its lock; whoever ends it settles the request.

    Attributes:
        inner: its requests to steps that have no final reply yet.
        open_strands: those of which an answer may still come.
        stream: where its answers go in order, if there may be several; else None.
    """

    __slots__ = (
        "_at_limits",
        "_head",
        "_listeners",
        "_lock",
        "_open_calls",
        "_unanswered",
        "ended",
        "infer_ns",
        "inner",
        "input_ns",
        "open_strands",
        "output_ns",
        "plan",
        "request",
        "start_ns",
        "stream",
    )

    def __init__(self, request: InferRequest, plan: Plan, start_ns: int, stream: Stream | None) -> None:
        self.request = request
        self.plan = plan
        self.start_ns = start_ns
        self.inner: set[InferRequest] = set()
        self.ended = False
        self.input_ns = self.infer_ns = self.output_ns = 0
        self.open_strands = 1
        self.stream = stream
        self._lock = threading.Lock()
        self._open_calls = 0
        self._head: Slot | None = Slot()
        self._listeners: list[tuple[HasRoom, Callable[[], None]]] = []
        self._unanswered: set[tuple[Strand, StepPlan]] = set()  # calls of decoupled steps without any response yet
        self._at_limits: dict[int, int] = {}  # by region, how many requests wait: their steps have too many in flight

    def begin(self, progress: Progress) -> None:
        """Put the request's inputs in place. One that is optional and absent feeds nothing, and holds nothing up."""
        plan, inputs = self.plan, self.request.inputs
        assert self._head is not None
        strand = Strand(self, self._head)
        with self._lock:
            if self.ended:
                return
            for name, number in plan.inputs:
                self._put(strand, number, inputs.get(name), progress)
            if not (self._open_calls or self.ended):
                raise _deadlock()

    def took(self, strand: Strand, step: StepPlan, reply: Reply, progress: Progress) -> None:
        """A step answered. `reply.outputs` need not be valid afterwards.

        Raises:
            InvalidArgumentError: nothing can go on any more, and there is no answer.
        """
        with self._lock:
            if step.decoupled:
                self._unanswered.discard((strand, step))
            if reply.final:
                self.inner.discard(reply.request)
                self._open_calls -= 1
                timing = reply.timing
                if timing is not None:
                    self.input_ns += timing.input_ns
                    self.infer_ns += timing.infer_ns
                    self.output_ns += timing.output_ns
            if self.ended:
                return
            if strand.slot.failure is None:
                self._take(strand, step, reply, progress)
            if self.ended:
                return
            if self.stream is not None:
                self._release(self.stream, progress)
            elif not (self._open_calls or self.ended):
                raise _deadlock()

    def end(self) -> bool:
        """Nothing more is answered. True for exactly one caller, who settles the request."""
        with self._lock:
            ended, self.ended = self.ended, True
        return not ended

    def leave(self) -> tuple[list[InferRequest], list[Callable[[], None]]]:
        """The requests to steps and the listeners of an ended run, to be cancelled and to be told."""
        with self._lock:
            inner, self.inner = list(self.inner), set()
            listeners, self._listeners = self._listeners, []
        return inner, [listener for _, listener in listeners]

    def stamps(self, end_ns: int) -> Stamps:
        """What computing took in all its steps together, for a run that ends now."""
        stamps = Stamps(self.start_ns, self.start_ns, end_ns, end_ns)
        stamps.input_ns, stamps.infer_ns, stamps.output_ns = self.input_ns, self.infer_ns, self.output_ns
        return stamps

    def has_room(self, strand: Strand, step: StepPlan, is_wanted: bool) -> bool:
        """Whether a decoupled step may answer its call for `strand`.

        Never all wait for one another: what is behind a step is held up by none before it, a step that others wait to
        enter goes on so that it ends, so does one whose instances those may be waiting for whose answers come first,
        and so do those whose answers all others wait for.

        Args:
            is_wanted: others, of any run, wait to enter the step.
        """
        if self.ended:
            return True
        waiting = dict(self._at_limits)
        if any(count and at > step.in_region for at, count in waiting.items()):
            return False
        if self.open_strands <= OPEN_STRANDS or is_wanted or waiting.get(step.in_region):
            return True
        return self._leads(strand) or self._holds_up(strand, step)

    def _leads(self, strand: Strand) -> bool:
        """Whether its next answer is among the first to go."""
        slot = self._head
        for _ in range(_LEADING):
            if slot is None or slot is strand.slot:
                break
            slot = slot.next
        return slot is strand.slot

    def _holds_up(self, strand: Strand, step: StepPlan) -> bool:
        """Whether the model has a call of an earlier strand that it may not have begun with."""
        others = {other.slot for other, called in tuple(self._unanswered) if called.model == step.model}
        slot = self._head
        while others and slot is not None and slot is not strand.slot:
            if slot in others:
                return True
            slot = slot.next
        return False

    def on_room(self, has_room: HasRoom, listener: Callable[[], None]) -> bool:
        """Keep `listener` until there is room; False if there is."""
        with self._lock:
            if has_room():
                return False
            self._listeners.append((has_room, listener))
            return True

    def wait_at_limit(self, region: int, count: int) -> None:
        """So many more requests of steps in that region wait, since their step has too many in flight."""
        with self._lock:
            self._at_limits[region] = self._at_limits.get(region, 0) + count

    def listeners(self) -> list[Callable[[], None]]:
        """Those for whom there is room now, and who are forgotten by this."""
        with self._lock:
            kept: list[tuple[HasRoom, Callable[[], None]]] = []
            found: list[Callable[[], None]] = []
            for has_room, listener in self._listeners:
                if has_room():
                    found.append(listener)
                else:
                    kept.append((has_room, listener))
            self._listeners = kept
        return found

    def _take(self, strand: Strand, step: StepPlan, reply: Reply, progress: Progress) -> None:
        target = strand
        if step.decoupled and reply.error is None:
            if reply.has_response:
                target = self._branch(strand)
            strand.slot.is_closed = reply.final
            if not reply.has_response:
                return
        try:
            if reply.error is not None:
                raise reply.error
            self._place(target, step, reply, progress)
        except CharoniaError as error:
            self._fail(target.slot, (step, error, reply.final), progress)

    def _fail(self, slot: Slot, failure: StepFailure, progress: Progress) -> None:
        if self.stream is None:
            self.ended = True
            progress.failures.append((self, *failure))
        else:
            slot.failure, slot.is_closed = failure, True

    def _branch(self, strand: Strand) -> Strand:
        """A strand for one response. Its answers go before all further ones of the strand that it comes from."""
        slot = strand.slot
        strand.slot = slot.next = Slot(slot.next)
        self.open_strands += 1
        return Strand(self, slot)

    def _place(self, strand: Strand, step: StepPlan, reply: Reply, progress: Progress) -> None:
        if reply.parameters or reply.request.correlation_id or reply.request.flags:
            strand.note_mark(step, reply)
        for name, number in step.targets:
            for tensor in reply.outputs:  # there are few, so that a dict would cost more
                if tensor.name == name:
                    self._put(strand, number, tensor.to_owned(), progress)
                    break
            else:
                self._put(strand, number, None, progress)

    def _put(self, strand: Strand, number: int, tensor: Tensor | None, progress: Progress) -> None:
        plan, missing = self.plan, strand.missing
        strand.values[number] = tensor
        for reader in plan.readers[number]:
            missing[reader] -= 1
            if missing[reader] > 0:
                continue
            if reader == plan.answer:
                self._answer(strand, progress)
            else:
                step = plan.steps[reader]
                assert step is not None
                self._open_calls += 1
                progress.ready.append((strand, step))
                if step.decoupled:
                    self._unanswered.add((strand, step))
                    if self._listeners:  # those that hold it up may go on
                        progress.streams.append(self)

    def _answer(self, strand: Strand, progress: Progress) -> None:
        """All outputs are there: the answer of the run, or one of its stream."""
        outputs = strand.outputs()
        parameters = parameters_of(strand.mark(self.plan.outputs))
        if self.stream is None:
            self.ended = True
            progress.answers.append((self, Reply(self.request, outputs, None, parameters)))
        else:
            slot = strand.slot
            slot.outputs, slot.parameters, slot.is_closed = outputs, parameters, True

    def _release(self, stream: Stream, progress: Progress) -> None:
        """Answer what may go now: the answer of a strand once all earlier ones are through.

        Raises:
            InvalidArgumentError: nothing can go on any more, and there is no answer.
        """
        answered: list[Slot] = []
        head = self._head
        while self._head is not None and self._head.is_closed and self._head.failure is None:
            if self._head.outputs is not None:
                answered.append(self._head)
            self.open_strands -= 1
            self._head = self._head.next
        failure = self._head.failure if self._head is not None else None
        if self._head is not None and not (failure or self._open_calls):
            raise _deadlock()
        self.ended = self._head is None or failure is not None
        replies = [Reply(self.request, slot.outputs or (), None, slot.parameters, final=False) for slot in answered]
        if failure is not None:
            progress.failures.append((self, *failure))
        elif self.ended:
            if not replies:
                replies.append(Reply(self.request, has_response=False))
            replies[-1].final = True
        for reply in replies:
            stream.add((self, reply))
        if replies or self._head is not head:  # there may be room now
            progress.streams.append(self)


def _deadlock() -> InvalidArgumentError:
    return InvalidArgumentError(
        "unexpected deadlock, at least one output is not set while no more ensemble steps can be made"
    )
