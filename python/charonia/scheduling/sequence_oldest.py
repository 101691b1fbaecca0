"""The strategy `oldest`: one request of each sequence at a time, batched as dynamic batching does, oldest first."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence

from charonia.core.request import InferRequest
from charonia.scheduling.forming import BatchRule, Decision
from charonia.scheduling.ordering import ReplyOrder
from charonia.scheduling.sequence_lane import Lane, Place
from charonia.scheduling.sequence_line import LiveSequence


class OldestLane(Lane):
    """Also the `WaitingLine` that its rule looks at.

    Args:
        keeps_order: responses leave in the order in which their requests became the first of their sequence.
    """

    def __init__(self, place: Place, rule: BatchRule, *, keeps_order: bool) -> None:
        super().__init__(place)
        self._rule = rule
        self._order = ReplyOrder() if keeps_order else None
        self._ready: OrderedDict[LiveSequence, None] = OrderedDict()

    @property
    def ready_count(self) -> int:
        return len(self._ready)

    def add_ready(self, sequence: LiveSequence) -> None:
        if self._order is not None and not sequence.is_again:
            self._order.enqueue(sequence.waiting[0], _already_queued)
        self._ready[sequence] = None

    def drop_ready(self, sequence: LiveSequence) -> None:
        del self._ready[sequence]

    def waiting(self) -> Iterator[InferRequest]:
        for sequence in self._ready:
            yield sequence.waiting[0]

    def since_ns(self, requests: Sequence[InferRequest]) -> int:
        return next(iter(self._ready)).ready_ns

    def decide(self, now_ns: int) -> Decision:
        return self._rule.decide(self, now_ns)

    def hand_out(self, batch: Sequence[InferRequest]) -> Sequence[InferRequest]:
        sequences = [sequence for sequence, _ in zip(self._ready, batch, strict=False)]
        return [self.hand_out_one(sequence) for sequence in sequences]


def _already_queued(request: InferRequest) -> None:
    """It waits in its sequence."""
