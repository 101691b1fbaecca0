"""One instance of a model: a thread that pulls batches and has the backend execute them."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from charonia.backends.arranging import OutputArranger
from charonia.backends.base import AgileInstance, BackendInstance, InstanceSpec, ReturningInstance
from charonia.backends.batch import ExecutingBatch
from charonia.backends.cores import pin
from charonia.core.clock import Clock
from charonia.core.errors import BackendError, CharoniaError, InternalError
from charonia.core.log import Log
from charonia.core.protocols import BatchSource, Bell, MeasuringSource, OnDeath, RateShare
from charonia.core.readiness import TellsReadiness
from charonia.core.request import InferRequest, refuse
from charonia.observe.statistics import ModelStatistics

# To wake the instance's own thread costs the one that does so 50 µs and more, several times that on a busy machine.
_QUICK_NS = 250_000
# A thread that waits for the answer anyway loses nothing by driving something slower. Yet the end of a dead process is
# told late by a thread that drives another one.
_BRIEF_NS = 1_000_000
# Nothing is taken for quick before it has been about twenty times.
_UNKNOWN_NS = 10 * _QUICK_NS


@dataclass(frozen=True, slots=True)
class InstanceServices:
    """What the instances of one model version share.

    Attributes:
        source: where batches come from.
        bell: what their threads wait at while the source has nothing.
        on_death: told when such a thread ends by an exception of our own, which is a bug.
    """

    model_name: str
    source: BatchSource
    bell: Bell
    arranger: OutputArranger
    clock: Clock
    on_death: OnDeath
    log: Log | None = None


class InstanceRunner:
    """Drives one backend instance.

    Attributes:
        share: what the rate limiter knows it by; None where nothing is limited.
        teller: the instance, if it is one that may have a word on its readiness. Known from the start: to ask whether
            something is of a protocol takes 7 µs, and each change of a model asks it of all instances.
        driving: whoever drives the instance holds it: its own thread, but while that waits for work.
        failure: why its thread ended by a bug of ours; None for nearly every one.
        health_changed: set by the owner before `start`; called by that thread then, so it must not wait for it.
    """

    def __init__(
        self,
        instance: BackendInstance,
        spec: InstanceSpec,
        services: InstanceServices,
        statistics: ModelStatistics,
        share: RateShare | None = None,
    ) -> None:
        self.instance = instance
        self.spec = spec
        self.share = share
        self._model_name = services.model_name
        self._source = source = services.source
        self._bell = services.bell
        self._arranger = services.arranger
        self._statistics = statistics
        self._clock = services.clock
        self._on_death = services.on_death
        self._log = services.log
        is_agile = isinstance(instance, AgileInstance) and not (spec.passive or spec.cores)
        self._limit_ns = _QUICK_NS if isinstance(instance, AgileInstance) and is_agile and instance.any_thread else 0
        self._limit_waiting_ns = _BRIEF_NS if is_agile else 0
        self._mortal = instance if isinstance(instance, ReturningInstance) else None
        self.teller = instance if isinstance(instance, TellsReadiness) else None
        self._on_executed = source.on_executed if isinstance(source, MeasuringSource) else None
        self._is_busy = False
        self._usual_ns = _UNKNOWN_NS
        self.driving = threading.Lock()
        self.failure: str | None = None
        self.health_changed: Callable[[], None] = lambda: None
        self._closed = False
        self._thread = threading.Thread(target=self._run, name=spec.name, daemon=True)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def device(self) -> str:
        return self.spec.device

    @property
    def alive(self) -> bool:
        """Whether it can serve: its thread runs and its backend is well. A passive one only has to be well."""
        serves = self._thread.is_alive() and self.failure is None
        return (serves or self.spec.passive) and self.instance.healthy

    @property
    def is_busy(self) -> bool:
        """Whether the model's code has a batch. It is over before any answer leaves that comes when it returns: who has
        the answer finds the instance free."""
        return self._is_busy

    @property
    def ended(self) -> bool:
        """It was started, and its thread is over; or it is passive, and closed."""
        return self._closed if self.spec.passive else self._thread.ident is not None and not self._thread.is_alive()

    def start(self) -> None:
        """Let it pull. One that is passive never does."""
        if not self.spec.passive:
            self._thread.start()

    def _run(self) -> None:
        try:
            pin(self.spec.cores)
            while self._next():
                pass
        except BaseException as error:
            self.failure = _ended(self.spec.name, error)
            try:
                self._on_death(self.spec.name, error)
            finally:
                self.health_changed()
        finally:
            if self.share is not None:
                self.share.leave()
            with self.driving:
                self._closed = True
                self.instance.close()

    def _next(self) -> bool:
        """Execute a batch; False when there are no more."""
        with self.driving:
            requests = self._source.next_batch(self._bell, self)
            if requests is not None:
                if self._mortal is not None and self.share is not None and not self._mortal.healthy:
                    self._wait_for_return(self._mortal)
                    self.share.insist()
                self._drive(requests)
                if self._mortal is not None and not self._mortal.healthy:
                    self._wait_for_return(self._mortal)
        return requests is not None

    def _wait_for_return(self, mortal: ReturningInstance) -> None:
        """Others may have meanwhile what it needs to execute."""
        if self.share is not None:
            self.share.free()
        mortal.wait_for_return()

    def borrow(self, waits: bool = False) -> bool:
        """Whether the caller may drive the instance now, from its own thread: it is idle, and quick as far as is known.
        `give_back` ends that.

        Args:
            waits: the caller's thread waits for the answer anyway.
        """
        limit_ns = self._limit_waiting_ns if waits else self._limit_ns
        if self._usual_ns >= limit_ns or not self.driving.acquire(blocking=False):
            return False
        if self._closed or not self.instance.healthy:
            self.driving.release()
            return False
        return True

    def give_back(self, requests: Sequence[InferRequest] = ()) -> None:
        """After `borrow`: execute these, if there are any, and leave the instance to its own thread."""
        try:
            if requests:
                self._drive(requests)
        except BaseException as error:
            self._is_busy = False  # its own thread goes on
            self._on_death(self.spec.name, error)
        finally:
            if self.share is not None:
                self.share.free()
            self.driving.release()

    def _drive(self, requests: Sequence[InferRequest]) -> None:
        self._is_busy = True
        if self.share is not None:
            self.share.begin(requests)
        batch = ExecutingBatch(requests, self._arranger, self._statistics, self._clock, self._log)
        try:
            self.run_batch(batch)
        except BaseException as error:
            # A bug of ours, which ends this thread: nobody else knows these requests.
            for request in requests:
                refuse(request, InternalError(_ended(self.spec.name, error)))
            raise
        self._usual_ns += (batch.compute_ns - self._usual_ns) // 8
        batch.wait_ready()
        if self.share is not None:
            self.share.overlaps |= not all(request.settled for request in requests)
        if self._on_executed is not None:
            self._on_executed(requests, batch.started_ns, self._clock.now_ns())
        self._is_busy = False

    def run_batch(self, batch: ExecutingBatch) -> None:
        """Execute; every request of the batch is settled then, or held by the backend. Also used for warm-up."""
        error: CharoniaError | None = None
        try:
            self.instance.start(batch)
        except CharoniaError as raised:
            error = raised
        except Exception as raised:
            error = BackendError(f"model '{self._model_name}' failed: {type(raised).__name__}: {raised}")
        self._is_busy = not batch.is_ready
        batch.close(error, self._model_name)

    def join(self, timeout_s: float | None = None) -> bool:
        """Wait for the thread's end, after the source was stopped. False if it is still busy."""
        if self._thread.ident is not None:
            self._thread.join(timeout_s)
        else:
            if self.share is not None:
                self.share.leave()
            with self.driving:
                closed, self._closed = self._closed, True
            if not closed:
                self.instance.close()
        return not self._thread.is_alive()


def _ended(name: str, error: BaseException) -> str:
    return f"instance {name} ended by a fault of the server: {error!r}"
