"""`max_inflight_requests`: how many requests of one step may be in flight, of all requests of an ensemble together."""

import threading
from collections import deque
from collections.abc import Callable

from charonia.core.request import InferRequest
from charonia.pipelines.flow import StreamFlow
from charonia.pipelines.graph import StepPlan
from charonia.pipelines.outlet import Outlet
from charonia.pipelines.run import Run

Entering = tuple[Run, StepPlan, InferRequest]


class InflightLimit:
    """Holds requests of one step back, in order, until there is a place for them. Blocks nobody.

    Args:
        limit: the number of places.
        submit: told of requests that have a place now; `leave` is called once for each of them.
        on_room: told of a run in which somebody may go on, after one of its requests got its place, or waits for it.
    """

    def __init__(self, limit: int, submit: Callable[[list[Entering]], None], on_room: Callable[[Run], None]) -> None:
        self._free = limit
        self._on_room = on_room
        self._outlet = Outlet(submit)
        self._lock = threading.Lock()
        self._waiting: deque[Entering] = deque()
        self._inside: set[InferRequest] = set()

    @property
    def waiting_count(self) -> int:
        return len(self._waiting)

    def is_wanted(self) -> bool:
        """Whether anybody waits for a place."""
        return bool(self._waiting)

    def enter(self, run: Run, step: StepPlan, request: InferRequest) -> None:
        run.wait_at_limit(step.in_region, 1)
        with self._lock:
            is_first = not self._waiting
            self._waiting.append((run, step, request))
        self._proceed()
        self._on_room(run)
        if is_first and self._waiting:
            self._tell_wanted()

    def leave(self, request: InferRequest) -> None:
        """A request that had a place is settled."""
        with self._lock:
            self._inside.discard(request)
            self._free += 1
        self._proceed()

    def _tell_wanted(self) -> None:
        with self._lock:
            inside = list(self._inside)
        for request in inside:
            if isinstance(request.flow, StreamFlow):
                request.flow.wake()

    def _proceed(self) -> None:
        passed: list[Entering] = []
        with self._lock:
            while self._waiting and (self._free > 0 or self._waiting[0][0].ended):
                entering = self._waiting.popleft()
                passed.append(entering)
                if not entering[0].ended:  # else it was cancelled, or failed: its requests are not sent any more
                    self._free -= 1
                    self._inside.add(entering[2])
                    self._outlet.add(entering)
        self._outlet.flush()
        for run, step, _ in passed:
            run.wait_at_limit(step.in_region, -1)
            self._on_room(run)
