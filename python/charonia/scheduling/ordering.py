"""`preserve_ordering`: the replies of one model version leave in the order in which its requests were queued."""

import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence

from charonia.core.errors import FailureReason
from charonia.core.request import InferRequest, Reply, ReplyChannel

# A request that never was executed is answered at once: nobody waits for the order of refusals.
_AT_ONCE = (FailureReason.REJECTED, FailureReason.CANCELED)


class _Ticket:
    """A place in the order, and the replies that wait in it. It is the request's channel from then on."""

    __slots__ = ("_order", "channel", "final", "held")

    def __init__(self, order: "ReplyOrder", channel: ReplyChannel) -> None:
        self._order = order
        self.channel = channel
        self.held: list[Reply] = []
        self.final = False

    def send(self, replies: Sequence[Reply]) -> None:
        self._order.send(self, replies)


class ReplyOrder:
    """Holds replies back until every earlier request has its final one."""

    def __init__(self) -> None:
        self._entering = threading.Lock()
        self._lock = threading.Lock()
        self._sending = False
        self._tickets: deque[_Ticket] = deque()

    def enqueue(self, request: InferRequest, enqueue: Callable[[InferRequest], None]) -> None:
        """Give the request its place in the order and queue it; both or, when `enqueue` raises, neither."""
        with self._entering:
            channel = request.channel
            ticket = _Ticket(self, channel)
            with self._lock:
                self._tickets.append(ticket)
            request.channel = ticket
            try:
                enqueue(request)
            except BaseException:
                request.channel = channel
                with self._lock:
                    ticket.final = True
                raise

    def enter(self, request: InferRequest) -> None:
        """Give the request its place, whatever becomes of it then: its replies, refusals too, come to its channel."""
        with self._lock:
            ticket = _Ticket(self, request.channel)
            self._tickets.append(ticket)
        request.channel = ticket

    def send(self, ticket: _Ticket, replies: Sequence[Reply]) -> None:
        """Pass on what may go now: refusals at once, the rest when its turn comes.

        One thread sends at a time, and holds no lock: whoever gets a reply may send another one here.
        """
        now = [reply for reply in replies if _goes_at_once(reply)]
        later = [reply for reply in replies if not _goes_at_once(reply)]
        if now:
            ticket.channel.send(now)
        with self._lock:
            others_send, self._sending = self._sending, True
            if others_send or (self._tickets and self._tickets[0] is not ticket):
                for reply in later:
                    reply.outputs = [tensor.to_owned() for tensor in reply.outputs]
            ticket.held.extend(later)
            ticket.final = ticket.final or any(reply.final for reply in replies)
        if not others_send:
            for channel, ready in self._releases():
                channel.send(ready)

    def _releases(self) -> Iterator[tuple[ReplyChannel, list[Reply]]]:
        """What may go, until there is no more; then another thread may send."""
        while True:
            with self._lock:
                released = self._release()
                self._sending = bool(released)
            if not released:
                return
            yield from released

    def _release(self) -> list[tuple[ReplyChannel, list[Reply]]]:
        released: list[tuple[ReplyChannel, list[Reply]]] = []
        while self._tickets:
            first = self._tickets[0]
            if first.held:
                released.append((first.channel, first.held))
                first.held = []
            if not first.final:
                break
            self._tickets.popleft()
        return released


def _goes_at_once(reply: Reply) -> bool:
    return reply.error is not None and reply.error.failure_reason in _AT_ONCE
