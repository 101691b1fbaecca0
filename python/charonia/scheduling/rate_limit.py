"""The rate limiter: which instances of all models may execute at the same time, and which of those that wait is next.

An instance group lists the resources that each of its instances needs while it executes. An instance with work asks for
its turn, and forms its batch once it has it, so that the batch can grow meanwhile. It keeps the resources until it is
ready for the next batch, and asks again at once if there is work, so that the order among those that wait is right.

The order is that of Triton's rate limiter: fewest executions first, each counted with the instance's priority. Three
things differ. An instance that comes out of idleness catches up with at most two executions of those that it competes
with, however many it has missed. Those behind one that must wait go first where they need nothing that it waits for.
And requests of models that wait for the answer, while they hold resources themselves, go before all others: else nobody
might ever go.
"""

import threading
from collections.abc import Iterable, Sequence

from charonia.config.rate_limits import EACH_DEVICE, GivenResources
from charonia.core.errors import InvalidArgumentError
from charonia.core.log import Log, SilentLog
from charonia.core.request import InferRequest
from charonia.scheduling.rate_circles import Circles, line_of
from charonia.scheduling.rate_share import GLOBAL, Amounts, Key, Share, ShareGroup, Turn

# How many executions of another one an instance may catch up with after it was idle.
_CREDIT = 2


class RateLimiter:
    """The resources of one server. Any thread may use it, and none waits in here.

    Args:
        given: how much there is; empty: as much as the instance needs that needs most.
    """

    def __init__(self, given: GivenResources, log: Log | None = None) -> None:
        self._given = given
        self._log = log or SilentLog()
        self._lock = threading.Lock()
        self._shares: dict[int, Share] = {}  # by the identity of what callers know their instances by
        self._asking: list[Share] = []
        self._totals: dict[Key, int] = {}
        self._used: dict[Key, int] = {}

    def group(self, model: str) -> ShareGroup:
        """For the instances of one model version."""
        return ShareGroup(self, model)

    def register(self, shares: Sequence[Share]) -> None:
        """These instances will ask. Each is dropped by its `leave` later.

        Raises:
            InvalidArgumentError: one needs more than there is, or counts a resource by device that another one counts
                for the whole server. Nothing has changed then.
        """
        with self._lock:
            self._check_kinds((*self._shares.values(), *shares))
            for share in shares:
                self._check_counts(share)
            self._shares.update((id(share.instance), share) for share in shares)
            news = self._recount()
        self._tell(news)

    @staticmethod
    def _check_kinds(shares: Iterable[Share]) -> None:
        first: dict[str, tuple[bool, Share]] = {}
        for share in shares:
            for device, name in share.needs:
                is_global, other = first.setdefault(name, (device == GLOBAL, share))
                if is_global != (device == GLOBAL):
                    raise InvalidArgumentError(
                        f'Resource "{name}" is present as both global and device-specific resource: in rate_limiter of '
                        f"model '{other.group.model}' it has global: {str(is_global).lower()}, of model "
                        f"'{share.group.model}' global: {str(not is_global).lower()}"
                    )

    def _check_counts(self, share: Share) -> None:
        for (device, name), count in share.needs.items():
            limit = self._limit(device, name) if self._given else count
            if limit < count:
                where = "" if device == GLOBAL else f" on device {device}"
                raise InvalidArgumentError(
                    f"model '{share.group.model}': Resource count for \"{name}\" is limited to {limit}{where}, and "
                    f"instance {share.name} needs {count}: start with --rate-limit-resource={name}:{count} or more, or "
                    "write a lower count in rate_limiter"
                )

    def _limit(self, device: int, name: str) -> int:
        """What the command line gives; 0 of a resource that it does not name."""
        if device == GLOBAL:
            return max((counts[name] for counts in self._given.values() if name in counts), default=0)
        return max(self._given.get(each, {}).get(name, 0) for each in (device, EACH_DEVICE))

    def _recount(self) -> Sequence[str]:
        """How much there is now, and a line for each resource of which that has changed."""
        before, self._totals = self._totals, {}
        for share in self._shares.values():
            for key, count in share.needs.items():
                self._totals[key] = self._limit(*key) if self._given else max(count, self._totals.get(key, 0))
        return [
            f"Device: {'GLOBAL' if device == GLOBAL else device}\tResource: {name}\t Count: {count}"
            for (device, name), count in sorted(self._totals.items())
            if before.get((device, name)) != count
        ]

    def _tell(self, news: Sequence[str]) -> None:
        for line in news:
            self._log.verbose(f"rate limiter: there is now\t{line}")

    def leave(self, share: Share) -> None:
        with self._lock:
            if self._shares.pop(id(share.instance), None) is None:
                return
            self._stand_down(share)
            news = self._recount()
            self._allocate()
        self._tell(news)

    def ask(self, share: Share) -> bool:
        """See `Share.ask`."""
        with self._lock:
            if share.turn in (Turn.IDLE, Turn.EXECUTING):
                self._queue_up(share)
                self._allocate()
            if share.turn is Turn.ASKING:
                share.changed.clear()
            return share.turn is Turn.GRANTED

    def take(self, share: Share) -> bool:
        """See `Share.take`."""
        with self._lock:
            if share.turn in (Turn.IDLE, Turn.EXECUTING):
                self._queue_up(share)
                self._allocate()
            if share.turn is Turn.ASKING:
                self._stand_down(share)
            return share.turn is Turn.GRANTED

    def free(self, share: Share) -> None:
        """See `Share.free`."""
        with self._lock:
            if share.turn is not Turn.IDLE:
                self._stand_down(share)
                self._allocate()

    def _queue_up(self, share: Share) -> None:
        if share.turn is Turn.EXECUTING:
            self._give_back(share)
        else:
            self._level(share)
        share.turn = Turn.ASKING
        self._asking.append(share)

    def _stand_down(self, share: Share) -> None:
        if share.turn is Turn.ASKING:
            self._asking.remove(share)
        elif share.turn is Turn.GRANTED:  # it had no use for its turn
            share.spent -= share.priority
            self._give_back(share)
        elif share.turn is Turn.EXECUTING:
            self._give_back(share)
        share.turn = Turn.IDLE

    def _give_back(self, share: Share) -> None:
        share.requests, share.calls = (), []
        share.group.has_waiting_calls()  # what it has executed is not remembered there either
        for key, count in share.needs.items():
            self._used[key] -= count

    def _level(self, share: Share) -> None:
        """Out of idleness: little is owed to it for that time, and it owes no more than one execution."""
        others = [
            (
                other.spent - other.priority if other.holds else other.spent,
                other.priority,
            )  # before what it executes now
            for other in self._shares.values()
            if other is not share and other.turn is not Turn.IDLE and not other.needs.keys().isdisjoint(share.needs)
        ]
        if others:
            least = min(spent - _CREDIT * priority for spent, priority in others)
            most = min(spent for spent, _ in others) + share.priority
            share.spent = min(max(share.spent, least), most)

    def _allocate(self) -> None:
        """Give turns, in order, to those that ask and whose resources are free."""
        if not self._asking:
            return
        missing: set[Key] = set()
        for share in self._asking:
            share.is_urgent = share.group.has_waiting_calls()
        for share in sorted(self._asking, key=_rank):  # stable: of equals the one that has asked first
            if self._is_free(share.needs) and (share.is_urgent or missing.isdisjoint(share.needs)):
                self._grant(share)
            else:
                missing.update(share.needs)

    def _is_free(self, needs: Amounts) -> bool:
        return all(self._used.get(key, 0) + count <= self._totals[key] for key, count in needs.items())

    def _grant(self, share: Share) -> None:
        self._asking.remove(share)
        for key, count in share.needs.items():
            self._used[key] = self._used.get(key, 0) + count
        share.spent += share.priority
        share.turn = Turn.GRANTED
        share.changed.set()

    def admit(self, request: InferRequest, group: ShareGroup) -> None:
        """A request for whose answer an instance waits is about to be queued for those of `group`.

        Raises:
            InvalidArgumentError: those that wait for it hold what it needs: it would never be served.
            UnavailableError: they and others that wait at this moment do.
        """
        if not group.shares:  # an ensemble: the requests to its steps come here too
            return
        with self._lock:
            caller = self._caller_of(request)
            if caller is None:
                return
            caller.calls = [(call, where) for call, where in caller.calls if not call.settled]
            caller.calls.append((request, group))
            circles = Circles(self._shares.values(), self._totals)
            if not circles.serves(group):
                caller.calls.pop()
                raise circles.error(group, line_of(caller, self._caller_of))
            if group.calls and group.calls[0].settled:  # nobody may ever ask there, and so forget it
                group.calls = [call for call in group.calls if not call.settled]
            group.calls.append(request)

    def _caller_of(self, request: InferRequest) -> Share | None:
        """The instance that can't go on before the request is answered, as far as one is known."""
        caller = request.caller
        share = self._shares.get(id(caller.instance)) if caller is not None else None
        if caller is None or share is None or share.turn is not Turn.EXECUTING:
            return None
        return share if caller.is_sure or not share.overlaps else None


def _rank(share: Share) -> tuple[bool, int]:
    return not share.is_urgent, share.spent
