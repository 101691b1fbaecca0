"""One pass through a region of an ensemble's graph: the tensors that are there, and where its answer has its place."""

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

from charonia.core.errors import CharoniaError
from charonia.core.request import NO_PARAMETERS, Parameter, Reply
from charonia.core.tensor import Tensor
from charonia.pipelines.graph import Feed, StepPlan
from charonia.pipelines.marks import Mark, mark_in

if TYPE_CHECKING:
    from charonia.pipelines.run import Run


StepFailure = tuple[StepPlan, CharoniaError, bool]
"""The step, its error, and whether the step itself has failed by it."""


class Slot:
    """The place of a strand's answers among those of its run. `outputs` is None where none come from it.

    An error has its place among the answers too: what came before it is answered first.
    """

    __slots__ = ("failure", "is_closed", "next", "outputs", "parameters")

    def __init__(self, following: "Slot | None" = None) -> None:
        self.next = following
        self.is_closed = False
        self.outputs: Sequence[Tensor] | None = None
        self.failure: StepFailure | None = None
        self.parameters: Mapping[str, Parameter] = NO_PARAMETERS


class Strand:
    """One pass through a region of the graph: of the request itself, or of one response of a decoupled step.

    Attributes:
        values: by tensor; None for one that is not there, or not yet.
        missing: by step, then of the answer, how many tensors it still waits for.
    """

    __slots__ = ("_marks", "missing", "run", "slot", "values")

    def __init__(self, run: "Run", slot: Slot) -> None:
        self.run = run
        self.slot = slot
        self.values: list[Tensor | None] = [None] * run.plan.tensors
        self.missing = list(run.plan.waits)
        # By tensor, where a step's response said something else than the request of the ensemble.
        self._marks: dict[int, Mark] | None = None

    def inputs(self, step: StepPlan) -> tuple[dict[str, Tensor], Hashable, int]:
        """The inputs of one step, all of which are there or absent for good, with their signature and batch dim, which
        mean what those of an InferRequest mean."""
        inputs: dict[str, Tensor] = {}
        form: list[object] = [step.key]
        batch_dim = None
        for feed in step.feeds:
            tensor = self.values[feed.tensor]
            if tensor is None:
                form.append(None)
                continue
            shape = tensor.shape if feed.shaped is None else feed.shaped(tensor.shape)
            inputs[feed.name] = Tensor(feed.name, tensor.datatype, shape, tensor.buffer)
            form.append(tensor.datatype)
            form.append(shape[1:])
            first = shape[0] if shape else -1
            batch_dim = first if batch_dim in (None, first) else -1
        return inputs, tuple(form), -1 if batch_dim is None else batch_dim

    def outputs(self) -> list[Tensor]:
        """The outputs of the ensemble that are there."""
        made = []
        for feed in self.run.plan.outputs:
            tensor = self.values[feed.tensor]
            if tensor is not None:
                shape = tensor.shape if feed.shaped is None else feed.shaped(tensor.shape)
                made.append(Tensor(feed.name, tensor.datatype, shape, tensor.buffer))
        return made

    def note_mark(self, step: StepPlan, reply: Reply) -> None:
        """Note what the step's response, or its request, says of the sequence, if that is not what the request says.

        Raises:
            InvalidArgumentError: the response says it wrongly.
        """
        inner, outer = reply.request, self.run.request
        mark = mark_in(reply.parameters, inner.correlation_id) or (inner.correlation_id, inner.flags)
        if mark != (outer.correlation_id, outer.flags):
            if self._marks is None:
                self._marks = {}
            self._marks.update(dict.fromkeys((number for _, number in step.targets), mark))

    def mark(self, feeds: Sequence[Feed]) -> Mark:
        """The mark of the first of these tensors that has one, else the request's own."""
        if self._marks is not None:
            for feed in feeds:
                if feed.tensor in self._marks:
                    return self._marks[feed.tensor]
        return self.run.request.correlation_id, self.run.request.flags
