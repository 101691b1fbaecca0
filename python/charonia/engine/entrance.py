"""From a checked request to the queue of its model version: the gate, the response cache, the order of replies."""

from collections.abc import Callable, Sequence

from charonia.cache.stage import CacheStage, Enqueue
from charonia.core.errors import CharoniaError, UnavailableError
from charonia.core.request import InferRequest, refuse
from charonia.core.shelf import Shelf
from charonia.scheduling.base import Scheduler
from charonia.scheduling.ordering import ReplyOrder
from charonia.scheduling.queued import QueuedScheduler
from charonia.scheduling.rate_share import ShareGroup


class Entrance:
    """Any thread may use it.

    Args:
        keeps_order: replies leave in the order of the requests.
        make_cache: the stage that queues what it has not through the function given; None without a cache.
        rates: the model version before the rate limiter; None where nothing is limited.

    Attributes:
        cache: None where nothing is cached.
    """

    def __init__(
        self,
        model_name: str,
        scheduler: Scheduler,
        keeps_order: bool,
        make_cache: Callable[[Enqueue], CacheStage | None],
        rates: ShareGroup | None,
    ) -> None:
        self._model_name = model_name
        self._scheduler = scheduler
        self._order = ReplyOrder() if keeps_order else None
        self._rates = rates
        self._gate: Callable[[InferRequest], None] | None = None
        self.cache = make_cache(self._enqueue_missed)

    def shelf_to_publish(self) -> Shelf | None:
        """Where the front end finds answers that it may give without asking. For one thread at a time."""
        if self.cache is None or self._gate is not None or self._order is not None:
            return None
        return self.cache.shelf_to_publish()

    def choose_gate(self, *, are_passive: bool) -> None:
        """Before the first request, and whenever the instances have changed.

        Args:
            are_passive: none of the instances gets requests.
        """
        if are_passive:
            self._gate = self._refuse_for_passive
        else:
            # What is in the cache needs no instance: there the limiter is asked behind it.
            self._gate = self._rates.admit if self._rates is not None and self.cache is None else None

    def _refuse_for_passive(self, request: InferRequest) -> None:
        raise UnavailableError(f"model '{self._model_name}' has only passive instance groups, which get no requests")

    def enter(self, request: InferRequest) -> None:
        """Queue it, or answer it from the cache. Raises CharoniaError, then the caller still owns it."""
        if self._gate is not None:
            self._gate(request)
        if self.cache is not None:
            if self._order is not None:  # before the lookup: what is found takes less time than what is not
                self._order.enter(request)
            self.cache.enter(request)
        elif self._order is None:
            self._scheduler.enqueue(request)
        else:
            self._order.enqueue(request, self._scheduler.enqueue)

    def _enqueue_missed(self, request: InferRequest) -> None:
        """What the cache does not have."""
        if self._rates is not None:
            self._rates.admit(request)
        self._scheduler.enqueue(request)

    @property
    def takes_many(self) -> bool:
        """Whether requests may come many at a time, by `all_to_queue`."""
        knows_at_once = self.cache is None or self.cache.is_local
        return isinstance(self._scheduler, QueuedScheduler) and self._order is None and knows_at_once

    def all_to_queue(self, requests: Sequence[InferRequest]) -> Sequence[InferRequest]:
        """Of these, the ones that the caller is to queue; the others are answered from the cache, or refused."""
        if self._gate is not None:
            requests = _passing(self._gate, requests)
        if self.cache is not None:
            requests = self.cache.expect_missing(requests)
            if self._rates is not None:
                requests = _passing(self._rates.admit, requests)
        return requests


def _passing(gate: Callable[[InferRequest], None], requests: Sequence[InferRequest]) -> Sequence[InferRequest]:
    return [request for request in requests if passes(gate, request)]


def passes(check: Callable[[InferRequest], None], request: InferRequest) -> bool:
    """Whether the check raises nothing; else the request is refused."""
    try:
        check(request)
    except CharoniaError as error:
        refuse(request, error)
        return False
    return True
