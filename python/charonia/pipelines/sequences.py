"""The requests of one sequence enter each step of an ensemble in the order in which they came to the ensemble."""

import threading
from collections import deque
from collections.abc import Callable

from charonia.core.request import InferRequest
from charonia.pipelines.graph import StepPlan
from charonia.pipelines.outlet import Outlet
from charonia.pipelines.run import Run

Entering = tuple[Run, StepPlan, InferRequest]


class _Lane:
    """One sequence: by step, the runs that will enter it, in order; and what they hold back until it is their turn."""

    __slots__ = ("held", "lines", "outlet", "runs")

    def __init__(self, enter: Callable[[list[Entering]], None]) -> None:
        self.runs = 0
        self.lines: dict[int, deque[Run]] = {}
        self.held: dict[tuple[int, Run], list[Entering]] = {}
        self.outlet = Outlet(enter)

    def collect(self, index: int) -> None:
        """Let go what is next at this step. Behind a decoupled step a run's turn lasts until the run ends."""
        line = self.lines[index]
        while line:
            held = self.held.pop((index, line[0]), None)
            if held is None:
                return
            for entering in held:
                self.outlet.add(entering)
            if held[0][1].in_region:
                return
            line.popleft()


class SequenceOrder:
    """All sequences of one ensemble.

    Args:
        enter: told of requests whose turn it is, in order.
    """

    def __init__(self, enter: Callable[[list[Entering]], None]) -> None:
        self._enter = enter
        self._lock = threading.Lock()
        self._lanes: dict[int | str, _Lane] = {}

    def join(self, run: Run) -> None:
        """Give the run its place; before its first step is entered."""
        with self._lock:
            correlation_id = run.request.correlation_id
            lane = self._lanes.get(correlation_id)
            if lane is None:
                lane = self._lanes[correlation_id] = _Lane(self._enter)
            lane.runs += 1
            for step in run.plan.steps:
                if step is not None:
                    lane.lines.setdefault(step.index, deque()).append(run)

    def enter(self, run: Run, step: StepPlan, request: InferRequest) -> None:
        with self._lock:
            lane = self._lanes.get(run.request.correlation_id)
            if lane is None or run not in lane.lines[step.index]:
                return  # the run has ended
            lane.held.setdefault((step.index, run), []).append((run, step, request))
            lane.collect(step.index)
        lane.outlet.flush()

    def leave(self, run: Run) -> None:
        """The run has ended: it enters no step any more."""
        with self._lock:
            lane = self._lanes[run.request.correlation_id]
            lane.runs -= 1
            if not lane.runs:
                del self._lanes[run.request.correlation_id]
            for index, line in lane.lines.items():
                lane.held.pop((index, run), None)
                if run in line:
                    line.remove(run)
                    lane.collect(index)
        lane.outlet.flush()
