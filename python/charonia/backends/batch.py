"""One batch while it is executed: the implementation of `backends.base.Batch`."""

import threading
from collections.abc import Mapping, Sequence

from charonia.backends.arranging import OutputArranger
from charonia.core.clock import Clock
from charonia.core.errors import BackendError, CharoniaError
from charonia.core.log import Log
from charonia.core.request import NO_PARAMETERS, InferRequest, Parameter, Reply, ReplyChannel, not_iterative
from charonia.core.tensor import Tensor
from charonia.observe.stamps import Stamps
from charonia.observe.statistics import ModelStatistics


class ExecutingBatch:
    """Owns its requests from the scheduler's hand-over until each is settled. See `Batch` for the methods' contracts.

    Args:
        statistics: None for work that is not counted (warm-up).
        log: told of failures of the model's own code.

    Attributes:
        started_ns: when its execution began; compute_ns: how long it took until the last answers that were counted.
    """

    def __init__(
        self,
        requests: Sequence[InferRequest],
        arranger: OutputArranger,
        statistics: ModelStatistics | None,
        clock: Clock,
        log: Log | None = None,
    ) -> None:
        self.requests = requests
        self._arranger = arranger
        self._statistics = statistics
        self._clock = clock
        self._log = log
        self.started_ns = clock.now_ns()
        self._input_end_ns = 0
        self._output_start_ns = 0
        self._counted = False
        self.compute_ns = 0
        self._lock = threading.Lock()
        self._sending = threading.Lock()
        self._outbox: list[Reply] = []
        self._rescheduled: set[InferRequest] = set()
        self._ready: threading.Event | None = None

    def inputs_ready(self) -> None:
        self._input_end_ns = self._input_end_ns or self._clock.now_ns()

    def outputs_ready(self) -> None:
        self._output_start_ns = self._output_start_ns or self._clock.now_ns()

    def respond(
        self,
        request: InferRequest,
        outputs: Sequence[Tensor],
        parameters: Mapping[str, Parameter] = NO_PARAMETERS,
        final: bool = True,
    ) -> None:
        if request.turn is not None and request.turn.state is not None:
            if request.settled:
                return  # its turn is over: the sequence may have gone on
            try:
                outputs = request.turn.state.keep(outputs)
            except CharoniaError as error:
                self.fail(request, error)
                return
        # Before the request is settled: outputs that can't be arranged must leave it to be failed.
        arranged = self._arranger.arrange(outputs, request.requested_outputs)
        if self._may_answer(request, final):
            self._post(Reply(request, arranged, None, parameters, final))

    def end(self, request: InferRequest) -> None:
        if self._may_answer(request, final=True):
            self._post(Reply(request, has_response=False))

    def reschedule(self, request: InferRequest) -> None:
        if request.settled:
            return  # it failed, by a wrong state for example: it takes no other turn
        if request.turn is None:
            raise not_iterative(request.model_name)
        request.turn.reschedule(request)
        self._rescheduled.add(request)

    def fail(self, request: InferRequest, error: CharoniaError, final: bool = True) -> None:
        if self._may_answer(request, final):
            self._post(Reply(request, error=error, final=final))

    @staticmethod
    def _may_answer(request: InferRequest, final: bool) -> bool:
        """Nothing follows what settles the request. It keeps its turn until its answer has been sent: the next request
        of the sequence, executed by another thread, must not be answered before."""
        return request.settle(keeps_turn=True) if final else not request.settled

    def _post(self, reply: Reply) -> None:
        if not reply.request.is_padding:
            with self._lock:
                self._outbox.append(reply)

    def flush(self) -> None:
        replies: list[Reply] = []
        try:
            with self._sending:  # responses of one request must not overtake one another
                with self._lock:
                    replies, self._outbox = self._outbox, []
                self._send(replies)
        finally:
            for reply in replies:
                if reply.final and reply.request.turn is not None:
                    reply.request.turn.release()

    def _send(self, replies: Sequence[Reply]) -> None:
        try:
            if self._statistics is not None:
                self._count(self._statistics, replies)
        finally:
            send_by_channel(replies, self._log)
        if self._log is not None:
            self._tell_failures(self._log, replies)

    def _tell_failures(self, log: Log, replies: Sequence[Reply]) -> None:
        """Each failure of the model once for the batch: its author reads the log, the client may be anybody."""
        failures = [reply for reply in replies if isinstance(reply.error, BackendError)]
        for message in dict.fromkeys(str(reply.error) for reply in failures):
            log.error(f"model '{failures[0].request.model_name}' version {failures[0].request.version}: {message}")

    def _count(self, statistics: ModelStatistics, replies: Sequence[Reply]) -> None:
        end_ns = self._clock.now_ns()
        start_ns = self.started_ns
        stamps = Stamps(start_ns, self._input_end_ns or start_ns, self._output_start_ns or end_ns, end_ns)
        self.compute_ns = end_ns - start_ns
        final = [reply for reply in replies if reply.final]
        for reply in final:
            if reply.request.ancestors or reply.request.trace is not None:
                reply.timing = stamps
        if not self._counted:
            self._counted = True
            statistics.record_batch(stamps, sum([request.batch_size for request in self.requests]), final)
        elif final:
            statistics.record_later(stamps, final)
        if statistics.first_responses is not None:
            statistics.record_responses(replies, end_ns)
        if statistics.responses is not None:
            statistics.record_streamed(start_ns, end_ns, replies)

    def hold(self) -> None:
        self._ready = threading.Event()

    def ready_for_next(self) -> None:
        if self._ready is not None:
            self._ready.set()

    @property
    def is_ready(self) -> bool:
        """Once `start` has returned: whether the instance may start another batch."""
        return self._ready is None or self._ready.is_set()

    def wait_ready(self) -> None:
        """Block until the instance may start another batch."""
        if self._ready is not None:
            self._ready.wait()

    def close(self, error: CharoniaError | None, model_name: str) -> None:
        """`start` has returned (or raised `error`): settle what the backend forgot, unless it holds the batch."""
        if error is not None or self._ready is None:
            for request in self.requests:
                if not (request.settled or request in self._rescheduled):
                    self.fail(request, error or _forgotten(model_name))
        self.flush()
        if error is not None:
            self.ready_for_next()


def _forgotten(model_name: str) -> CharoniaError:
    return BackendError(f"the backend of model '{model_name}' returned without answering this request")


def send_by_channel(replies: Sequence[Reply], log: Log | None) -> None:
    """Hand replies over, those of one channel together. A channel that raises keeps nothing from the others.

    Args:
        log: told of channels that raise, which none should; None: the first one that does is an error here.
    """
    if not replies:
        return
    first = replies[0].request.channel
    if all(reply.request.channel is first for reply in replies):
        _send(first, replies, log)
        return
    groups: dict[int, tuple[ReplyChannel, list[Reply]]] = {}
    for reply in replies:
        channel = reply.request.channel
        groups.setdefault(id(channel), (channel, []))[1].append(reply)
    for channel, group in groups.values():
        _send(channel, group, log)


def _send(channel: ReplyChannel, replies: Sequence[Reply], log: Log | None) -> None:
    try:
        channel.send(replies)
    except Exception as error:
        if log is None:
            raise
        log.error(
            f"{len(replies)} replies of model '{replies[0].request.model_name}' could not be handed over by a fault of "
            f"the server: {error!r}"
        )
