"""One loaded version of a model: what it is made of, what it accepts, how it starts and ends."""

import secrets
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from charonia.backends.arranging import OutputArranger
from charonia.backends.base import BackendModel, InstanceSpec, SequenceListener
from charonia.backends.instance import InstanceRunner, InstanceServices
from charonia.cache.stage import CacheStage, Enqueue
from charonia.config.io import io_specs
from charonia.core.batching import Strategy
from charonia.core.errors import CharoniaError, InvalidArgumentError, UnavailableError
from charonia.core.model_id import model_id
from charonia.core.protocols import Bell
from charonia.core.readiness import TellsReadiness
from charonia.core.request import InferRequest, refuse
from charonia.core.shelf import Shelf, no_shelf
from charonia.engine.checks import RequestCheck
from charonia.engine.entrance import Entrance, passes
from charonia.engine.instances import InstanceMaker, InstanceSet
from charonia.engine.services import ModelServices
from charonia.observe.statistics import ModelStatistics, new_statistics
from charonia.scheduling.base import Scheduler, SequenceEnder
from charonia.scheduling.build import build_scheduler
from charonia.scheduling.queued import QueuedScheduler
from charonia.scheduling.rate_share import share_of
from charonia.scheduling.state import StateStore

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig


class RetiredError(UnavailableError):
    """The version that was found has been replaced or is being unloaded."""


class ModelVersion:
    """A model version that can serve. Made loaded, then `start`, later `stop`.

    Args:
        labels: class labels by output name, for outputs that have any.
        backend_model: owned from here on; closed by `stop`.
        specs: the instances to make.
        bell: what idle instances wait at; route: the number under which the wire knows that bell, 0 for none.
        on_closed: called once everything is freed, also when the constructor fails.
        states: what is kept for sequences, None for nothing.
        cache_identity: see the method of that name; None for one that nothing else has.
        strategy: the user's word on what may join a batch, None for none; the caller's, until `on_closed` is called.

    Raises (from the constructor, having freed everything):
        CharoniaError: an instance could not be made.
    """

    def __init__(
        self,
        name: str,
        version: int,
        config: "ModelConfig",
        labels: Mapping[str, Sequence[str]],
        backend_model: BackendModel,
        specs: Sequence[InstanceSpec],
        bell: Bell,
        route: int,
        services: ModelServices,
        *,
        on_closed: Callable[[], None] = lambda: None,
        states: StateStore | None = None,
        cache_identity: bytes | None = None,
        strategy: Strategy | None = None,
    ) -> None:
        self.id = model_id(name)
        self.name = self.id.name
        self.version = version
        self.version_text = str(version)
        self.config = config
        self.labels = labels
        self._route = route
        self.inputs, self.outputs = io_specs(config)
        self.decoupled = config.model_transaction_policy.decoupled
        self._statistics = new_statistics(services.metrics, config)
        self.gpu_statistics: dict[str, ModelStatistics] = {}
        self._backend_model = backend_model
        self._services = services
        self._check = RequestCheck(self.name, self.inputs, self.outputs, config.max_batch_size)
        self._arranger = OutputArranger(self.outputs, config.max_batch_size > 0)
        self._lock = threading.Lock()
        self._in_flight = 0
        self._idle = threading.Condition(self._lock)
        self._awaited = False  # somebody waits, or has waited, until nothing is in flight
        self._retired = False
        self._closed = False
        self._on_closed = on_closed
        self._bell = bell
        self._strategy = strategy
        self.scheduler = self._make_scheduler(states)
        self._cache_identity = cache_identity or secrets.token_bytes(16)
        limiter = services.rate_limiter
        self._rates = limiter.group(name) if limiter is not None else None
        self._entrance = Entrance(
            self.name, self.scheduler, config.dynamic_batching.preserve_ordering, self._make_cache, self._rates
        )
        self._maker = self._make_maker()
        self._instances = InstanceSet(self.scheduler)
        try:
            self._instances.runners = self._maker.make(specs)
        except BaseException:
            self._close()
            raise
        self._entrance.choose_gate(are_passive=self._instances.are_passive)

    def _make_scheduler(self, states: StateStore | None) -> Scheduler:
        services = self._services
        return build_scheduler(
            self.config,
            services.clock,
            services.timer,
            services.submitter,
            self._bell,
            self._count_refusal,
            self._sequence_ended,
            aids=services.aids,
            states=states,
            strategy=self._strategy,
            log=services.log,
        )

    def _make_cache(self, enqueue: Enqueue) -> CacheStage | None:
        services = self._services
        if services.cache is None or not self.config.response_cache.enable:
            return None
        return CacheStage(
            services.cache,
            self.cache_identity,
            enqueue,
            self._count_refusal,
            self._statistics,
            services.clock,
            services.errands,
            services.log,
            no_shelf if self._statistics.counts_each else services.new_shelf,
            [spec.name for spec in self.outputs],
        )

    def _make_maker(self) -> InstanceMaker:
        services = self._services
        shared = InstanceServices(
            self.name, self.scheduler, self._bell, self._arranger, services.clock, services.on_death, services.log
        )
        return InstanceMaker(self._backend_model, shared, self._statistics_of, self._rates)

    def cache_identity(self) -> bytes | None:
        """What responses are cached under: another model, version, configuration or file has another one. None while
        they can't be cached."""
        return self._cache_identity

    def renew_cache_identity(self) -> None:
        """What it was made of is not known: nothing else has its identity from now on. Before `start`."""
        self._cache_identity = secrets.token_bytes(16)

    @property
    def route(self) -> int:
        """Where the wire may hand its calls to whoever waits there; 0 for nowhere."""
        return self._route

    def shelf_to_publish(self) -> Shelf | None:
        """Where the front end finds answers to this version that it may give without asking; None for nowhere. For one
        thread at a time; to be published whenever something changes."""
        return self._entrance.shelf_to_publish()

    @property
    def statistics(self) -> ModelStatistics:
        """What was counted up to now."""
        if self._entrance.cache is not None:
            self._entrance.cache.count_given()
        return self._statistics

    @property
    def has_sequences(self) -> bool:
        """Whether its requests must come in the order in which they arrived."""
        return self.config.HasField("sequence_batching")

    @property
    def needs(self) -> Sequence[tuple[str, int]]:
        """The models, by name and version (or ANY_VERSION), without which it can't serve: the steps of an ensemble."""
        return ()

    @property
    def instances(self) -> Sequence[InstanceRunner]:
        """Those that serve."""
        return self._instances.runners

    def make_instances(self, specs: Sequence[InstanceSpec]) -> list[InstanceRunner]:
        """More of them, the caller's until `adopt` takes them. Raises as `InstanceMaker.make`."""
        return self._maker.make(specs)

    def adopt(self, config: "ModelConfig", kept: Sequence[InstanceRunner], added: Sequence[InstanceRunner]) -> bool:
        """Serve with these instances: `kept` of the present ones, and `added`, which start. The others end; this waits
        for them. False when the version is being unloaded: then nothing was done, and `added` are still the caller's.
        """
        with self._lock:  # so that a stop finds them started
            if self._retired:
                return False
            self.config = config
            leaving = self._instances.exchange(kept, added)
            self._entrance.choose_gate(are_passive=self._instances.are_passive)
        self._instances.end(leaving, have_sequences=config.HasField("sequence_batching"))
        return True

    def _statistics_of(self, device: str) -> ModelStatistics:
        """Where the instances on `device` count: Triton's metrics tell GPUs apart."""
        uuid = self._services.gpu_uuids.get(device)
        if uuid is None:
            return self._statistics
        return self.gpu_statistics.setdefault(uuid, new_statistics(self._services.metrics, self.config))

    def start(self) -> None:
        """Let the instances pull."""
        self._instances.start()

    @property
    def live_instances(self) -> int:
        return self._instances.live_count

    @property
    def readiness_tellers(self) -> Sequence[TellsReadiness]:
        """Its instances that have to be asked whether they are ready."""
        return self._instances.readiness_tellers

    @property
    def may_call_itself(self) -> bool:
        """Whether a request that this model makes while it executes one can be served: another instance is free, and
        may have any request (those of a sequence may have their own instance only)."""
        return not self.has_sequences and not self._instances.are_all_busy

    @property
    def failure(self) -> str | None:
        """Why the version was given up for good, for its instances; None when it was not."""
        return self._instances.failure(have_sequences=self.has_sequences)

    @property
    def pending_count(self) -> int:
        """Requests waiting for an instance."""
        return self.scheduler.pending_count

    @property
    def batch_delay_us(self) -> float | None:
        """How long a request waits for others now, where a latency target decides that; else None."""
        return self.scheduler.batch_delay_us if isinstance(self.scheduler, QueuedScheduler) else None

    def submit(self, request: InferRequest) -> None:
        """Check the request and queue it. Raises CharoniaError, then the caller still owns it.

        Raises:
            RetiredError: the request is as it was: another version may take it.
        """
        with self._lock:
            if self._retired:
                raise self._retired_error()
            self._in_flight += 1
        request.admission = self
        request.version = self.version_text
        self._check.check(request)
        try:
            self._entrance.enter(request)
        except CharoniaError as error:
            self._count_refusal(request, error)
            raise

    def submit_waiting(self, request: InferRequest) -> None:
        """As `submit`, from a thread that has nothing to do before the answer: it may execute the request, and whatever
        this leads to."""

        def submit() -> None:
            if not self.submit_all((request,), waits=True):
                self.submit(request)

        self._services.errands.apart(submit)

    def submit_all(self, requests: Sequence[InferRequest], waits: bool = False) -> bool:
        """As `submit` for each of them, but each outcome goes to its request's channel. The calling thread executes
        some of them itself where an instance is idle and quick. False where requests are to come one by one: then
        nothing was done.

        Args:
            waits: the thread has nothing to do before the answers, so it executes them even if that takes longer.

        Raises:
            RetiredError: all requests are as they were.
        """
        if not isinstance(self.scheduler, QueuedScheduler) or not self._entrance.takes_many:
            return False
        with self._lock:
            if self._retired:
                raise self._retired_error()
            self._in_flight += len(requests)
        accepted = self._entrance.all_to_queue([request for request in requests if self._admit(request)])
        if not accepted:
            return True
        runner = self._instances.borrow(waits)
        batch: Sequence[InferRequest] = ()
        try:
            share = share_of(runner) if self._rates is not None else None
            refused, batch = self.scheduler.enqueue_all(accepted, takes=runner is not None, share=share)
        finally:
            if runner is not None:
                execute = self._services.errands.apart if waits else self._services.errands.run
                execute(lambda: runner.give_back(batch))
        for request, error in refused:
            self._count_refusal(request, error)
            refuse(request, error)
        return True

    def _admit(self, request: InferRequest) -> bool:
        """Complete and check it; what does not fit is refused."""
        request.admission = self
        request.version = self.version_text
        return passes(self._check.check, request)

    def _retired_error(self) -> RetiredError:
        return RetiredError(f"model '{self.name}' version {self.version} is being unloaded")

    def end_sequence(self, correlation_id: int | str) -> None:
        """Nobody goes on with this sequence: its slot is freed and its state forgotten. An unknown one is no error."""
        if isinstance(self.scheduler, SequenceEnder):
            self.scheduler.end_sequence(correlation_id)

    def release(self) -> None:
        """One request of ours is settled."""
        with self._lock:
            self._in_flight -= 1
            if self._awaited and not self._in_flight:
                self._idle.notify_all()

    @property
    def in_flight(self) -> int:
        return self._in_flight

    def hasten(self) -> None:
        """Let no request wait for others to come any more: few will."""
        self.scheduler.hasten()

    def retire(self) -> None:
        """Take no new requests."""
        with self._lock:
            self._retired = True
        self.hasten()

    def wait_idle(self, timeout_s: float) -> bool:
        """Wait until no request is unsettled. False if the time ran out."""
        with self._lock:
            self._awaited = True
            return self._idle.wait_for(lambda: not self._in_flight, timeout_s)

    def stop(self, timeout_s: float) -> bool:
        """Settle what waits, end the instances, free the model. False: an instance is still busy and left behind.

        May be called again, also by several threads.
        """
        self.retire()
        self.scheduler.stop(self.failure)
        ended = self._instances.join(timeout_s)
        if self._entrance.cache is not None:  # the front end has given what it will, and the cache's counters live on
            self._entrance.cache.count_given()
        if ended:
            self._close()
        return ended

    def _close(self) -> None:
        with self._lock:
            closed, self._closed = self._closed, True
        if not closed:
            self._backend_model.close()
            self._on_closed()

    def _sequence_ended(self, seat: object, correlation_id: int | str, reason: str) -> None:
        if isinstance(seat, InstanceRunner) and isinstance(seat.instance, SequenceListener):
            seat.instance.sequence_ended(correlation_id, reason)

    def health_changed(self, runner: InstanceRunner) -> None:
        """An instance of ours went down, or came back. From any thread."""
        if not runner.instance.healthy:
            self.scheduler.lost(runner)

    def _count_refusal(self, request: InferRequest, error: CharoniaError) -> None:
        if isinstance(error, InvalidArgumentError):
            return  # A wrong request is the client's failure: Triton does not count it either.
        self._statistics.record_failure(request, error.failure_reason, self._services.clock.now_ns())
