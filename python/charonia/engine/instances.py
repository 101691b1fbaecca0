"""The instances of one model version: how they are made, which ones serve, and which are about to end."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from charonia.backends.base import BackendModel, InstanceSpec, MortalInstance
from charonia.backends.instance import InstanceRunner, InstanceServices
from charonia.core.readiness import TellsReadiness
from charonia.engine.creation import create_all
from charonia.observe.statistics import ModelStatistics
from charonia.scheduling.base import Scheduler
from charonia.scheduling.rate_share import Share, ShareGroup


class InstanceMaker:
    """Makes instances that don't pull yet; they are the caller's.

    Args:
        statistics_of: where instances on a device ("cpu", "gpu:0") count.
        rates: the model version before the rate limiter; None where nothing is limited.
    """

    def __init__(
        self,
        backend_model: BackendModel,
        services: InstanceServices,
        statistics_of: Callable[[str], ModelStatistics],
        rates: ShareGroup | None,
    ) -> None:
        self._backend_model = backend_model
        self._services = services
        self._statistics_of = statistics_of
        self._rates = rates

    def make(self, specs: Sequence[InstanceSpec]) -> list[InstanceRunner]:
        """
        Raises:
            CharoniaError: one could not be made; none is left behind then.
        """
        shares = self._join_limiter(specs)
        try:
            instances = create_all(self._backend_model, specs)
        except BaseException:
            for share in shares.values():
                share.leave()
            raise
        return [
            InstanceRunner(instance, spec, self._services, self._statistics_of(spec.device), shares.get(id(spec)))
            for spec, instance in zip(specs, instances, strict=True)
        ]

    def _join_limiter(self, specs: Sequence[InstanceSpec]) -> Mapping[int, Share]:
        """By the identity of their specs, the shares of those that will execute."""
        if self._rates is None:
            return {}
        active = [spec for spec in specs if not spec.passive]
        shares = self._rates.join((spec, spec.name, spec.device_number, spec.rate) for spec in active)
        return {id(spec): share for spec, share in zip(active, shares, strict=True)}


class InstanceSet:
    """Any thread may ask it.

    Attributes:
        runners: the instances that serve, or will from `start` on.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._lock = threading.Lock()
        self._leaving: list[InstanceRunner] = []  # not among `runners` any more, and not ended yet
        self.runners: Sequence[InstanceRunner] = ()

    def start(self) -> None:
        """Let them pull."""
        self._start(self.runners)

    def _start(self, runners: Sequence[InstanceRunner]) -> None:
        self._scheduler.expect(_active(runners))
        for runner in runners:
            runner.start()

    def exchange(self, kept: Sequence[InstanceRunner], added: Sequence[InstanceRunner]) -> Sequence[InstanceRunner]:
        """Have `kept` of the present ones, and `added`, which start; gives the others, for `end`."""
        with self._lock:
            leaving = [runner for runner in self.runners if runner not in kept]
            self.runners = (*kept, *added)
            self._leaving.extend(leaving)
        self._start(added)
        return leaving

    def end(self, leaving: Sequence[InstanceRunner], *, have_sequences: bool) -> None:
        """Wait for those that leave, but for those that have sequences: these may last for ever, and end where they
        began."""
        if not leaving:
            return
        self._scheduler.dismiss(_active(leaving))
        for runner in leaving:
            if runner.spec.passive or not have_sequences:
                runner.join()
        with self._lock:
            self._leaving = [runner for runner in self._leaving if not runner.ended]

    def join(self, timeout_s: float) -> bool:
        """Wait until all have ended, those that leave too, after a stop of the scheduler. False: one is still busy."""
        deadline_s = time.monotonic() + timeout_s
        # Each of them: one that is busy must not keep the others from being closed.
        ended = [runner.join(max(0.0, deadline_s - time.monotonic())) for runner in (*self.runners, *self._leaving)]
        return all(ended)

    def borrow(self, waits: bool) -> InstanceRunner | None:
        """One that the calling thread may drive now, see `InstanceRunner.borrow`; None when there is none."""
        return next((runner for runner in self.runners if runner.borrow(waits)), None)

    @property
    def live_count(self) -> int:
        return sum(runner.alive for runner in self.runners)

    @property
    def are_passive(self) -> bool:
        """Whether there are some, and none of them gets requests."""
        return bool(self.runners) and not any(True for _ in _active(self.runners))

    @property
    def are_all_busy(self) -> bool:
        return all(runner.is_busy or runner.failure for runner in _active(self.runners))

    @property
    def readiness_tellers(self) -> Sequence[TellsReadiness]:
        """Those that have to be asked whether they are ready."""
        return [runner.teller for runner in self.runners if runner.teller is not None and runner.teller.tells_ready]

    def failure(self, *, have_sequences: bool) -> str | None:
        """Why they serve no more: one was given up for good, or the last one ended by a bug of ours; None when they do.
        Of those that have sequences each one is the last: it has its own."""
        instances = (runner.instance for runner in self.runners)
        given_up = (each.failure for each in instances if isinstance(each, MortalInstance) and each.failure)
        failures = [runner.failure for runner in _active(self.runners)]
        has_none_left = have_sequences or all(failures)
        return next(given_up, None) or next(filter(None, failures if has_none_left else ()), None)


def _active(runners: Iterable[InstanceRunner]) -> Iterator[InstanceRunner]:
    """Those that get requests."""
    return (runner for runner in runners if not runner.spec.passive)
