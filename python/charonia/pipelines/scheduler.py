"""The scheduler of an ensemble: it has no queue and no instance, its requests run as requests to the steps' models.

Whichever thread brings the reply of a step submits what that makes ready, so there is no hand-over between threads but
those of the steps' models. Replies of one executed batch come together, and their answers leave together.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from charonia.backends.batch import send_by_channel
from charonia.core.clock import Clock
from charonia.core.errors import CancelledError, CharoniaError, FailureReason, InternalError, UnavailableError
from charonia.core.log import Log
from charonia.core.model_id import ModelId
from charonia.core.protocols import Bell, Submitter
from charonia.core.request import InferRequest, Reply
from charonia.observe.statistics import ModelStatistics
from charonia.pipelines.flow import StreamFlow
from charonia.pipelines.graph import Graph, StepModels, StepPlan, models_of_steps
from charonia.pipelines.limits import InflightLimit
from charonia.pipelines.outlet import Outlet
from charonia.pipelines.run import Progress, Run
from charonia.pipelines.sequences import SequenceOrder
from charonia.pipelines.strand import Strand
from charonia.scheduling.queue import request_prefix

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig


class EnsembleScheduler:
    """See `scheduling.base.Scheduler`. A request is the scheduler's own until it is settled.

    Args:
        model: the ensemble itself.
        submitter: takes the requests to the steps.
        directory: gives the models at this moment.
        statistics: of the ensemble.
    """

    def __init__(
        self,
        model: ModelId,
        config: "ModelConfig",
        clock: Clock,
        submitter: Submitter,
        directory: Callable[[], StepModels],
        statistics: ModelStatistics,
        log: Log,
    ) -> None:
        self._config = config
        self._id = str(model)  # as ancestors have it, which cross to the processes of models
        self._name = model.name
        self._alone = (self._id,)  # the ancestors of a request to a step, where nobody else waits for it
        self._clock = clock
        self._submitter = submitter
        self._directory = directory
        self._statistics = statistics
        self._log = log
        self._seen: StepModels | None = None
        self._graph = Graph(config, [None] * len(config.ensemble_scheduling.step))
        self._sequences = SequenceOrder(self._enter_all)
        limit = config.ensemble_scheduling.max_inflight_requests
        self._limits = [
            InflightLimit(limit, self._submit_all, self._tell_room) for _ in config.ensemble_scheduling.step if limit
        ]
        if limit:
            log.info(f"Ensemble model '{self._name}' configured with max_inflight_requests: {limit}")
        self._live: set[Run] = set()
        self._stopped = False

    @property
    def pending_count(self) -> int:
        """Requests of steps that wait for `max_inflight_requests`; all others wait at the models of the steps."""
        return sum(limit.waiting_count for limit in self._limits)

    def enqueue(self, request: InferRequest) -> None:
        if self._stopped:
            raise self._unloaded(request)
        now_ns = self._clock.now_ns()
        request.queue_start_ns = now_ns
        plan = self._current().plan(request.requested_outputs)
        run = Run(request, plan, now_ns, Outlet(self._answer) if plan.region else None)
        if request.correlation_id:
            self._sequences.join(run)
        self._live.add(run)  # from now on `stop` may end it, which leaves its sequence
        if self._stopped:  # after `stop` has looked for what is live
            self._fail(run, self._unloaded(request))
            return
        request.on_cancel(lambda: self._cancel(run))
        progress = Progress()
        try:
            run.begin(progress)
        except CharoniaError as error:
            self._fail(run, self._named(error))
        self._answer_all(progress)
        for strand, step in progress.ready:  # one by one: this thread has others to submit, and can't be kept
            self._call(strand, step, now_ns)

    def next_batch(self, bell: Bell, seat: object) -> Sequence[InferRequest] | None:
        return None

    def expect(self, seats: Iterable[object]) -> None:
        """There are no instances."""

    def lost(self, seat: object) -> None:
        """There are no instances."""

    def dismiss(self, seats: Iterable[object]) -> None:
        """There are no instances."""

    def hasten(self) -> None:
        """No request waits for others here."""

    def cancel(self, request: InferRequest) -> None:
        """No request waits here: each has a listener of its own for its cancellation."""

    def stop(self, why: str | None = None) -> None:
        self._stopped = True
        for run in tuple(self._live):
            self._fail(run, self._unloaded(run.request))

    def _unloaded(self, request: InferRequest) -> CharoniaError:
        return UnavailableError(f"{request_prefix(request)}model '{self._name}' was unloaded")

    def _cancel(self, run: Run) -> None:
        self._fail(run, CancelledError(f"{request_prefix(run.request)}the request was cancelled while it ran"))

    def _current(self) -> Graph:
        """The graph over the models of now. Two threads may compile it at once; both graphs are right."""
        directory = self._directory()
        if directory is not self._seen:
            known = self._graph.models
            models = [new or old for new, old in zip(models_of_steps(self._config, directory), known, strict=True)]
            if any(new is not old for new, old in zip(models, known, strict=True)):
                self._graph = Graph(self._config, models)
            self._seen = directory
        return self._graph

    def send(self, replies: Sequence[Reply]) -> None:
        """The ReplyChannel of all requests to steps: the replies of one executed batch come together."""
        progress = Progress()
        for reply in replies:
            strand: Strand
            step: StepPlan
            strand, step = reply.request.token  # type: ignore[misc]
            if reply.final and self._limits:
                self._limits[step.index].leave(reply.request)
            try:
                strand.run.took(strand, step, reply, progress)
            except CharoniaError as error:
                self._fail_at(step, strand.run, error)
            except Exception as error:
                fault = InternalError(f"the response could not be taken by a fault of the server: {error!r}")
                self._fail_at(step, strand.run, fault)
        self._answer_all(progress)
        if progress.ready:
            self._call_all(progress.ready, self._clock.now_ns())

    def _fail_at(self, step: StepPlan, run: Run, error: CharoniaError) -> None:
        if run.end():
            self._tell_failure(run, step, error)

    def _tell_failure(self, run: Run, step: StepPlan, error: CharoniaError, has_failed: bool = True) -> None:
        if has_failed:
            self._statistics.record_step_failure(run.request, self._clock.now_ns())
        self._tell(run, self._named(error, f"step {step.number} (model '{step.model}'): "))

    def _named(self, error: CharoniaError, where: str = "") -> CharoniaError:
        """The same error, saying where it comes from."""
        sentence = f"in ensemble '{self._name}', {where}{error}"
        named = type(error).__new__(type(error), sentence)
        named.args = (sentence,)
        named.__dict__.update(error.__dict__)
        return named

    def _answer_all(self, progress: Progress) -> None:
        if progress.answers:
            self._answer(progress.answers)
        for run in progress.streams:
            assert run.stream is not None
            run.stream.flush()
            self._tell_room(run)
        for run, step, error, has_failed in progress.failures:
            self._tell_failure(run, step, error, has_failed)

    def _answer(self, answers: Sequence[tuple[Run, Reply]]) -> None:
        """Settle the runs that these end, count, and send. Of one run, no two threads do so at once."""
        now_ns = self._clock.now_ns()
        replies = [reply for run, reply in answers if not reply.final or self._settle(run, reply, now_ns)]
        if self._statistics.first_responses is not None:
            self._statistics.record_responses([reply for reply in replies if reply.error is None], now_ns)
        if self._log.highest_verbosity:
            self._tell_absent(answers)
        send_by_channel(replies, self._log)
        for run, reply in answers:
            if reply.final:
                self._leave(run)

    def _settle(self, run: Run, reply: Reply, now_ns: int) -> bool:
        request = run.request
        if not request.settle():
            return False
        if reply.error is not None:
            reason = FailureReason.CANCELED if request.cancelled else FailureReason.OTHER
            self._statistics.record_failure(request, reason, now_ns)
        else:
            reply.timing = stamps = run.stamps(now_ns)
            self._statistics.record_batch(stamps, request.batch_size, (reply,))
        return True

    def _tell_absent(self, answers: Sequence[tuple[Run, Reply]]) -> None:
        for run, reply in answers:
            if reply.error is None and reply.has_response:
                given = {tensor.name for tensor in reply.outputs}
                for feed in run.plan.outputs:
                    if feed.name not in given:
                        self._log.verbose(f"Composing models did not output tensor {feed.name} of '{self._name}'")

    def _fail(self, run: Run, error: CharoniaError) -> None:
        """End the run, and with it what it has in flight. Does nothing for one that has ended."""
        if run.end():
            self._tell(run, error)

    def _tell(self, run: Run, error: CharoniaError) -> None:
        """Answer a run that has ended by this error, after what it has answered already."""
        reply = Reply(run.request, error=error)
        if run.stream is None:
            self._answer(((run, reply),))
        else:
            run.stream.add((run, reply))
            run.stream.flush()

    def _leave(self, run: Run) -> None:
        run.request.on_cancel(None)
        self._live.discard(run)
        if run.request.correlation_id:
            self._sequences.leave(run)
        inner, listeners = run.leave()
        for request in inner:
            request.cancel()
        for listener in listeners:
            listener()

    def _call_all(self, ready: Sequence[tuple[Strand, StepPlan]], now_ns: int) -> None:
        """As `_call` for each, but those that nothing holds back are submitted together, step by step."""
        together: dict[StepPlan, list[InferRequest]] = {}
        for strand, step in ready:
            run = strand.run
            if self._limits or run.request.correlation_id:
                self._call(strand, step, now_ns)
            elif not run.ended:
                request = self._request(strand, step, now_ns)
                self._note(run, request)
                together.setdefault(step, []).append(request)
        for requests in together.values():
            self._submitter.submit_all(requests)

    def _call(self, strand: Strand, step: StepPlan, now_ns: int) -> None:
        """Make a request of a step that has its inputs, and send it on its way."""
        run = strand.run
        if run.ended:
            return
        request = self._request(strand, step, now_ns)
        if run.request.correlation_id:
            self._sequences.enter(run, step, request)
        else:
            self._enter(run, step, request)

    def _request(self, strand: Strand, step: StepPlan, now_ns: int) -> InferRequest:
        outer = strand.run.request
        inputs, signature, batch_dim = strand.inputs(step)
        correlation_id, flags = strand.mark(step.feeds)
        request = InferRequest(
            step.model,
            step.version,
            inputs,
            self,
            now_ns,
            outer.id,
            step.wanted,
            outer.parameters,
            outer.deadline_ns,
            outer.priority,
            outer.timeout_us,
            correlation_id,
            flags,
            (strand, step),
            signature,
            batch_dim,
            step.decoupled,
            self._flow(strand, step) if step.decoupled else None,
            (*outer.ancestors, self._id) if outer.ancestors else self._alone,
        )
        request.caller = outer.caller
        if outer.trace is not None:
            outer.trace.follow(request, is_step=True)
        return request

    def _flow(self, strand: Strand, step: StepPlan) -> StreamFlow:
        is_wanted = self._limits[step.index].is_wanted if self._limits else _never
        return StreamFlow(strand, step, strand.run.request.flow, is_wanted)

    def _enter_all(self, entering: Sequence[tuple[Run, StepPlan, InferRequest]]) -> None:
        for run, step, request in entering:
            self._enter(run, step, request)

    def _enter(self, run: Run, step: StepPlan, request: InferRequest) -> None:
        if self._limits:
            self._limits[step.index].enter(run, step, request)
        else:
            self._submit(run, request)

    def _submit_all(self, entering: Sequence[tuple[Run, StepPlan, InferRequest]]) -> None:
        for run, _, request in entering:
            self._submit(run, request)

    def _submit(self, run: Run, request: InferRequest) -> None:
        self._note(run, request)
        self._submitter.submit(request)

    def _note(self, run: Run, request: InferRequest) -> None:
        run.inner.add(request)
        if run.ended:  # maybe after what it had in flight was cancelled
            request.cancel()

    def _tell_room(self, run: Run) -> None:
        for listener in run.listeners():
            listener()


def _never() -> bool:
    """Nobody waits for a place where there are as many as anybody wants."""
    return False
