"""What one instance, and all of one model version, are to the rate limiter."""

import threading
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Protocol

from charonia.config.rate_limits import RateNeeds
from charonia.core.request import InferRequest

GLOBAL = -2
"""As a device: the resource is counted once for the whole server."""

Key = tuple[int, str]
"""A resource: its device, or GLOBAL, and its name."""
Amounts = Mapping[Key, int]


# Executions that an instance is taken to have had when it is made. Triton 2.51 begins so: of two new instances with
# priorities 1 and 2 that both have work, the first one executes twice before the other one does.
_AT_FIRST = 2


class Turn(Enum):
    """How far an instance is."""

    IDLE = auto()
    ASKING = auto()
    GRANTED = auto()  # it has its resources, and no batch yet
    EXECUTING = auto()


class Limiter(Protocol):
    """See `rate_limit.RateLimiter`."""

    def register(self, shares: "Sequence[Share]") -> None: ...
    def leave(self, share: "Share") -> None: ...
    def ask(self, share: "Share") -> bool: ...
    def take(self, share: "Share") -> bool: ...
    def free(self, share: "Share") -> None: ...
    def admit(self, request: InferRequest, group: "ShareGroup") -> None: ...


class ShareGroup:
    """The instances of one model version.

    Attributes:
        shares: of its instances.
        calls: requests here for whose answers instances of other models wait, until they are executed. The limiter's.
    """

    def __init__(self, limiter: Limiter, model: str) -> None:
        self.limiter = limiter
        self.model = model
        self.shares: list[Share] = []
        self.calls: list[InferRequest] = []

    def join(self, instances: Iterable[tuple[object, str, int, RateNeeds]]) -> "list[Share]":
        """Shares for more instances: each by what callers know it by, its name, device and needs.

        Raises:
            InvalidArgumentError: see `RateLimiter.register`.
        """
        shares = [Share(self, *instance) for instance in instances]
        self.limiter.register(shares)
        self.shares = [*self.shares, *shares]
        return shares

    def admit(self, request: InferRequest) -> None:
        """See `RateLimiter.admit`."""
        if request.caller is not None:
            self.limiter.admit(request, self)

    def has_waiting_calls(self) -> bool:
        if self.calls:
            begun = {id(request) for share in self.shares for request in share.requests}
            self.calls = [call for call in self.calls if not call.settled and id(call) not in begun]
        return bool(self.calls)


class Share:
    """One instance before the limiter. Used by the thread that drives the instance, but for `nudge` and `leave`.

    Attributes:
        instance: what callers know it by, see `core.request.Caller`.
        needs: what it holds while it executes.
        requests: what it executes.
        overlaps: it has been ready for the next batch before the last one was answered, so that those who wait for
            another model's answer need not be those who execute.
        turn, spent, is_urgent, calls, changed: the limiter's. `calls`: for whose answers it waits, with their groups.
    """

    def __init__(self, group: ShareGroup, instance: object, name: str, device: int, rate: RateNeeds) -> None:
        self.group = group
        self.instance = instance
        self.name = name
        self.priority = rate.priority
        self.needs: Amounts = {(GLOBAL if each.is_global else device, each.name): each.count for each in rate.resources}
        self.requests: Sequence[InferRequest] = ()
        self.overlaps = False
        self.turn = Turn.IDLE
        self.spent = _AT_FIRST * rate.priority
        self.is_urgent = False
        self.calls: list[tuple[InferRequest, ShareGroup]] = []
        self.changed = threading.Event()

    @property
    def holds(self) -> bool:
        return self.turn in (Turn.GRANTED, Turn.EXECUTING)

    def ask(self) -> bool:
        """It is done with what it executed, and has work: whether it has its turn. If not, `wait` and look again."""
        return self.group.limiter.ask(self)

    def take(self) -> bool:
        """As `ask`, for who would not wait: either it has its turn now, or it did not ask."""
        return self.group.limiter.take(self)

    def free(self) -> None:
        """It is done with what it executed, and has no work."""
        self.group.limiter.free(self)

    def wait(self) -> None:
        """After `ask` has said no: until that may have changed, or somebody has called `nudge`."""
        self.changed.wait()

    def insist(self) -> None:
        """Wait for its turn, whatever happens."""
        while not self.ask():
            self.wait()

    def nudge(self) -> None:
        """From any thread: have it look again whether there is work for it."""
        self.changed.set()

    def begin(self, requests: Sequence[InferRequest]) -> None:
        """It has its turn, and executes these."""
        self.requests = requests
        self.turn = Turn.EXECUTING

    def leave(self) -> None:
        """It will not ask again. What it holds is free. May be called again."""
        self.group.shares = [share for share in self.group.shares if share is not self]
        self.group.limiter.leave(self)


class WaitingShares:
    """Those of one scheduler's instances that wait for their turn. Under the scheduler's lock."""

    __slots__ = ("_shares",)

    def __init__(self) -> None:
        self._shares: set[Share] = set()

    def has_turn(self, share: Share, has_work: bool) -> bool:
        """Whether the limiter has nothing against what is decided for this instance: some work, or to be idle. It is
        done with what it executed."""
        if not has_work:
            share.free()
        elif not share.ask():
            self._shares.add(share)
            return False
        self._shares.discard(share)
        return True

    def drop(self, share: Share | None) -> None:
        """Its instance ends."""
        if share is not None:
            self._shares.discard(share)

    def nudge(self) -> None:
        """Have them look again: what they were to execute may be gone."""
        for share in self._shares:
            share.nudge()


def share_of(seat: object) -> Share | None:
    """Of an instance, as schedulers know it; None where nothing is limited."""
    share: Share | None = getattr(seat, "share", None)
    return share
