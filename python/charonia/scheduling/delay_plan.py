"""Which delay suits a latency target: the one that makes the largest batches of those that keep it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from charonia.scheduling.replay import Executed, Outcome, Setting, replay

# Shares of the longest delay that are tried; between the last one that keeps the target and the next, two more.
_TRIED = (0.0, 0.06, 0.12, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_REFINED = 2
# Nobody waits longer for batches that are less than 3 % larger.
_WORTHWHILE = 0.97
# A quantile of some hundred requests is not exact.
_MARGIN = 0.98


@dataclass(frozen=True, slots=True)
class LatencyTarget:
    """What is asked for.

    Attributes:
        quantile: above 0 and below 1; latency_ns: which so many requests may take at most, from arrival to reply.
        max_delay_ns: a delay is never longer; 0 for no limit but the target.
    """

    quantile: float
    latency_ns: int
    max_delay_ns: int = 0

    @property
    def longest_ns(self) -> int:
        """No longer delay can keep the target: of requests that come evenly, `quantile` wait for that much of it."""
        longest = int(self.latency_ns / self.quantile)
        return min(longest, self.max_delay_ns) if self.max_delay_ns else longest


@dataclass(frozen=True, slots=True)
class DelayPlan:
    """A delay, and whether the target is kept by it; where no delay keeps it, there is none."""

    delay_ns: int
    is_met: bool


def plan_delay(
    requests: Sequence[Executed], setting: Setting, target: LatencyTarget, error_ns: float
) -> Iterator[DelayPlan | None]:
    """Gives None after each replay, so that whoever plans can pause there, and at last the plan.

    Args:
        requests: executed lately, in the order in which they were queued; at least one.
        error_ns: what requests take longer than a replay says.
    """
    allowed_ns = target.latency_ns * _MARGIN - error_ns

    outcomes: dict[float, Outcome] = {}
    for share in _TRIED:
        outcomes[share] = _tried(share, requests, setting, target)
        yield None
    kept = [share for share in _TRIED if outcomes[share].latency_ns <= allowed_ns]
    if not kept:
        yield DelayPlan(0, False)
        return
    above = next((share for share in _TRIED if share > kept[-1]), None)
    for _ in range(_REFINED if above is not None else 0):
        assert above is not None
        between = (kept[-1] + above) / 2
        outcomes[between] = _tried(between, requests, setting, target)
        yield None
        if outcomes[between].latency_ns <= allowed_ns:
            kept.append(between)
        else:
            above = between
    largest = max(outcomes[share].mean_rows for share in kept)
    share = next(share for share in kept if outcomes[share].mean_rows >= _WORTHWHILE * largest)
    yield DelayPlan(int(share * target.longest_ns), True)


def _tried(share: float, requests: Sequence[Executed], setting: Setting, target: LatencyTarget) -> Outcome:
    """With this share of the longest delay."""
    return replay(requests, int(share * target.longest_ns), target.quantile, setting)
