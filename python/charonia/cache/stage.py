"""The stage between check and queue of one model version: answer a request from the store, or queue it and keep what
comes back."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from charonia.backends.batch import send_by_channel
from charonia.cache.keys import KeyMaker, own_inputs
from charonia.cache.response import CachedResponse, kept_of
from charonia.cache.shelves import Shelves
from charonia.cache.store import LocalStore, RemoteStore, Store
from charonia.core.clock import Clock
from charonia.core.errors import CharoniaError, InternalError
from charonia.core.log import Log
from charonia.core.request import NO_PARAMETERS, InferRequest, Reply, ReplyChannel, refuse
from charonia.core.shelf import NewShelf, Shelf, no_shelf
from charonia.observe.statistics import ModelStatistics
from charonia.scheduling.errands import Errands

Enqueue = Callable[[InferRequest], None]
"""Queues a request. Raises CharoniaError, then the caller still owns it."""


class _Miss(NamedTuple):
    """What is known of a request that is executed: where its answer goes, and under which key it is kept."""

    channel: ReplyChannel
    identity: bytes
    key: bytes
    lookup_ns: int


class _NoTime:
    """Implements `Timing`: nothing was executed."""

    input_ns = infer_ns = output_ns = 0


_NO_TIME = _NoTime()


class CacheStage:
    """Every reply to a request that it has queued comes through its `send`, the ReplyChannel of all of them.

    Equal requests that come while the first one is executed are executed too: none waits for another, which might fail,
    be cancelled or have less time.

    Args:
        identity: `ModelVersion.cache_identity`; while it gives None, nothing is looked up or kept.
        enqueue: the queue behind.
        on_refused: told of a request that the queue refused after a lookup elsewhere, before it is answered.
        outputs: as configured, by name.
        new_shelf: for answers that the front end may give by itself; used with a local store.
    """

    def __init__(
        self,
        store: Store,
        identity: Callable[[], bytes | None],
        enqueue: Enqueue,
        on_refused: Callable[[InferRequest, CharoniaError], None],
        statistics: ModelStatistics,
        clock: Clock,
        errands: Errands,
        log: Log,
        new_shelf: NewShelf = no_shelf,
        outputs: Sequence[str] = (),
    ) -> None:
        self._store = store
        self._shelves = Shelves(store, statistics, new_shelf) if isinstance(store, LocalStore) else None
        # Asked once: to ask whether something is of a protocol takes as long as all the rest of a hit.
        self._lookup = store.lookup if isinstance(store, LocalStore) else None
        self._begin_lookup = store.begin_lookup if isinstance(store, RemoteStore) else None
        self._identity = identity
        self._enqueue = enqueue
        self._on_refused = on_refused
        self._statistics = statistics
        self._clock = clock
        self._errands = errands
        self._log = log
        self._keys = KeyMaker(outputs)
        self._missed: dict[InferRequest, _Miss] = {}
        self._told_too_large = False

    @property
    def is_local(self) -> bool:
        """Whether it knows at once what there is."""
        return self._lookup is not None

    def shelf_to_publish(self) -> Shelf | None:
        """Where what is found from now on is put, to be given without coming here. For one thread at a time."""
        return self._shelves.turn_to(self._identity()) if self._shelves is not None else None

    def count_given(self) -> None:
        """Count what was given from there."""
        if self._shelves is not None:
            self._shelves.count_given()

    def enter(self, request: InferRequest) -> None:
        """Answer a checked request, or queue it; maybe later, on a thread of the store.

        Raises:
            CharoniaError: the queue refuses it, and the caller still owns it.
        """
        if request.cancelled:  # the queue says so
            self._enqueue(request)
            return
        start_ns = self._clock.now_ns()
        identity = self._identity()
        key = self._key(request, identity)
        if identity is None or key is None:
            self._enqueue(request)
        elif self._lookup is not None:
            self._decide(request, identity, key, start_ns, self._lookup(key))
        elif self._begin_lookup is not None:
            request.queue_start_ns = start_ns  # it is accepted, as far as its client can see
            self._begin_lookup(key, lambda found: self._found(request, identity, key, start_ns, found))

    def expect_missing(self, requests: Sequence[InferRequest]) -> list[InferRequest]:
        """Of checked requests, those that are to be queued, all at once; the others are answered. Local stores only."""
        assert self._lookup is not None
        missing: list[InferRequest] = []
        for request in requests:
            start_ns = self._clock.now_ns()
            identity = self._identity()
            key = None if request.cancelled else self._key_or_none(request, identity)
            if identity is not None and key is not None:
                found = self._lookup(key)
                if found is not None:
                    self._answer(request, identity, key, found, start_ns)
                    continue
                self._expect(request, identity, key, start_ns)
            missing.append(request)
        return missing

    def _key(self, request: InferRequest, identity: bytes | None) -> bytes | None:
        if identity is None:
            return None
        own_inputs(request)
        return self._keys.key(identity, request)

    def _key_or_none(self, request: InferRequest, identity: bytes | None) -> bytes | None:
        """As `_key`. Where there is no memory to read its inputs, the model will find that, and nobody else suffers."""
        try:
            return self._key(request, identity)
        except CharoniaError:
            return None

    def _decide(
        self, request: InferRequest, identity: bytes, key: bytes, start_ns: int, found: CachedResponse | None
    ) -> None:
        if found is not None:
            self._answer(request, identity, key, found, start_ns)
        else:
            self._expect(request, identity, key, start_ns)
            self._enqueue(request)

    def _found(
        self, request: InferRequest, identity: bytes, key: bytes, start_ns: int, found: CachedResponse | None
    ) -> None:
        """On a thread of the store, or at once on that of the caller: the request is ours, whatever comes."""
        try:
            self._decide(request, identity, key, start_ns, None if request.cancelled else found)
        except CharoniaError as error:
            self._on_refused(request, error)
            refuse(request, error)
        except Exception as error:
            refuse(request, InternalError(f"the response cache failed by a fault of the server: {error!r}"))

    def _answer(self, request: InferRequest, identity: bytes, key: bytes, found: CachedResponse, start_ns: int) -> None:
        if not request.settle():
            return
        now_ns = self._clock.now_ns()
        request.queue_start_ns = start_ns
        self._statistics.record_cache_hit(request, start_ns, now_ns)
        parameters = dict(found.parameters) if found.parameters else NO_PARAMETERS  # the caller's own
        reply = Reply(request, found.outputs, None, parameters)
        if self._shelves is not None:
            self._shelves.keep(identity, key, found, reply)
        if not request.ancestors:
            request.channel.send((reply,))
            return
        # Who called may submit its next request at once, which may be answered here too: a chain must not nest.
        reply.timing = _NO_TIME
        self._errands.run(lambda: request.channel.send((reply,)))

    def _expect(self, request: InferRequest, identity: bytes, key: bytes, start_ns: int) -> None:
        self._missed[request] = _Miss(request.channel, identity, key, self._clock.now_ns() - start_ns)
        request.channel = self

    def send(self, replies: Sequence[Reply]) -> None:
        """Keep what can be kept, and pass everything on. The first reply to a request settles whether it can."""
        missed: list[tuple[Reply, _Miss]] = []
        for reply in replies:
            miss = self._missed.pop(reply.request, None)
            if miss is not None:
                reply.request.channel = miss.channel
                missed.append((reply, miss))
        try:
            for reply, miss in missed:
                self._keep(reply, miss)
        except Exception as error:
            self._log.error(f"a response could not be cached by a fault of the server: {error!r}")
        send_by_channel(replies, self._log)

    def _keep(self, reply: Reply, miss: _Miss) -> None:
        start_ns = self._clock.now_ns()
        response = kept_of(reply)
        if response is None:
            return
        # An ensemble's step may have been replaced while it ran: then nobody knows which one this answer is of.
        if self._identity() == miss.identity and not self._store.insert(miss.key, response):
            self._tell_too_large(reply, response)
        self._statistics.record_cache_miss(miss.lookup_ns, self._clock.now_ns() - start_ns, start_ns)

    def _tell_too_large(self, reply: Reply, response: CachedResponse) -> None:
        if not self._told_too_large:
            self._told_too_large = True
            self._log.warning(
                f"Failed to insert key: a response of model '{reply.request.model_name}' takes {response.nbytes} "
                "bytes, more than the response cache can hold; this is told once"
            )
