"""The strategy `direct`: each sequence has a slot of the batch for itself, as long as it lives."""

from collections.abc import Sequence
from math import ceil

from charonia.core.given_data import zeros_like
from charonia.core.request import InferRequest, Reply
from charonia.core.tensor import Tensor
from charonia.scheduling.forming import NOTHING, Decision
from charonia.scheduling.sequence_controls import SequenceControls
from charonia.scheduling.sequence_lane import Lane, Place
from charonia.scheduling.sequence_line import LiveSequence


class DirectLane(Lane):
    """A batch reaches up to the highest slot with something to do; what is missing below is padding.

    Args:
        min_ready: how many slots are worth a batch before the delay is over.
        max_delay_us: how long the oldest request may wait for that, in microseconds; 0 for not at all.
        waits_for_all: no batch before all of the last one is settled: else a sequence that is answered a little
            later than its neighbours would miss every other batch.
    """

    def __init__(self, place: Place, *, min_ready: float, max_delay_us: int, waits_for_all: bool) -> None:
        super().__init__(place)
        self._min_ready = min_ready
        self._delay_ns = max_delay_us * 1000
        self._waits_for_all = waits_for_all
        self._ready_count = 0

    @property
    def ready_count(self) -> int:
        return self._ready_count

    def add_ready(self, sequence: LiveSequence) -> None:
        self._ready_count += 1

    def drop_ready(self, sequence: LiveSequence) -> None:
        self._ready_count -= 1

    def decide(self, now_ns: int) -> Decision:
        if not self._ready_count or (self._waits_for_all and self.running):
            return NOTHING
        batch = [each.waiting[0] for each in self.slots if each is not None and each.is_ready]
        if not self._delay_ns or self._ready_count >= self._min_ready:
            return Decision(batch=batch)
        overdue_ns = min(request.queue_start_ns for request in batch) + self._delay_ns
        if now_ns >= overdue_ns:
            return Decision(batch=batch)
        return Decision(wake_ns=overdue_ns, wake_rows=ceil(self._min_ready))

    def hand_out(self, batch: Sequence[InferRequest]) -> Sequence[InferRequest]:
        """Requests that can't be joined with the first one stay where they are, with padding in their slots."""
        like = batch[0]
        highest = max(slot for slot, each in enumerate(self.slots) if each is not None and each.is_ready)
        chosen = [self._joins(sequence, like) for sequence in self.slots[: highest + 1]]
        padding = _Padding(like, next(each for each in chosen if each is not None), self._controls)
        return [padding.make() if sequence is None else self.hand_out_one(sequence) for sequence in chosen]

    @staticmethod
    def _joins(sequence: LiveSequence | None, like: InferRequest) -> LiveSequence | None:
        joins = sequence is not None and sequence.is_ready and sequence.waiting[0].shape_key == like.shape_key
        return sequence if joins else None


class _Padding:
    """Stands for the empty slots of one batch: as the request `like` of the sequence `beside`, with zeros."""

    def __init__(self, like: InferRequest, beside: LiveSequence, controls: SequenceControls) -> None:
        self._like = like
        self._state = beside.state
        self._controls = controls
        self._inputs: dict[str, Tensor] = {}

    def make(self) -> InferRequest:
        if not self._inputs:
            self._inputs = {name: zeros_like(tensor) for name, tensor in self._like.inputs.items()}
            if self._state is not None:
                self._inputs.update(self._state.padding())
        like = self._like
        padding = InferRequest(like.model_name, like.model_version, dict(self._inputs), _NOBODY, like.arrival_ns)
        padding.version = like.version
        padding.shape_key = like.shape_key
        padding.queue_start_ns = like.queue_start_ns
        padding.is_padding = True
        self._controls.apply_not_ready(padding)
        return padding


class _Nobody:
    """The ReplyChannel of padding."""

    def send(self, replies: Sequence[Reply]) -> None:
        """Nobody waits for an answer."""


_NOBODY = _Nobody()
