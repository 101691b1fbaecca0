"""A model served in simulated time: arrivals and executions on the hand-driven clock, a real queue, a real rule."""

import heapq
import random
from itertools import count

from charonia.scheduling.delay_plan import LatencyTarget
from charonia.scheduling.forming import AttentiveRule, DynamicBatching
from charonia.scheduling.latency_target import LatencyTargetBatching
from charonia.scheduling.queue import PriorityLevels, RequestQueue
from charonia.testing.clock import ManualClock
from charonia.testing.log import kept_log
from charonia.testing.requests import KeptReplies, make_request

MS = 1_000_000
S = 1_000_000_000


def steady(per_s, seconds, seed=0, start_s=0.0, rows=lambda rng: 1, key=lambda rng: 1):
    """A Poisson stream: (when in ns, rows, shape key)."""
    rng = random.Random(seed)
    at = start_s
    while (at := at + rng.expovariate(per_s)) < start_s + seconds:
        yield int(at * S), rows(rng), key(rng)


def bursts(size, every_ms, seconds, spread_ms=1.0, seed=0):
    """`size` requests within `spread_ms`, again and again."""
    rng = random.Random(seed)
    for number in range(int(seconds * 1000 / every_ms)):
        for offset in sorted(rng.uniform(0, spread_ms) for _ in range(size)):
            yield int((number * every_ms + offset) * MS), 1, 1


def line(base_ms, row_ms, jitter=0.1, seed=1):
    """A model that takes `base_ms + row_ms * rows`, give or take."""
    rng = random.Random(seed)
    return lambda rows, now_s: int((base_ms + row_ms * rows) * rng.lognormvariate(0, jitter) * MS)


class Done:
    """What became of a request: when it came and when it was answered, in seconds, in a batch of how many rows."""

    def __init__(self, arrived_s, answered_s, rows):
        self.arrived_s, self.answered_s, self.rows = arrived_s, answered_s, rows

    @property
    def ms(self):
        return (self.answered_s - self.arrived_s) * 1e3


class LatencyWorld:
    """Args: rule, or a target in ms to make one; `takes(rows, now_s)` gives the nanoseconds of an execution."""

    def __init__(self, takes, *, target_ms=None, quantile=0.95, delay_us=0, max_rows=64, preferred=(), instances=1):
        self.clock = ManualClock(S)
        self.log, self.lines = kept_log()
        forming = DynamicBatching(max_rows, preferred, delay_us)
        self.rule = forming
        if target_ms is not None:
            target = LatencyTarget(quantile, int(target_ms * MS), delay_us * 1000)
            self.rule = LatencyTargetBatching(forming, target, "the target", "m", self.log)
        self.forming = forming
        self.queue = RequestQueue(self, PriorityLevels())
        self.takes = takes
        self.idle = instances
        self.done = []
        self.delays_us = []
        self._channel = KeptReplies()
        self._events = []
        self._order = count()
        self._growing = None

    def now_s(self):
        return (self.clock.now_ns() - S) / S

    def at(self, when_ns, act):
        heapq.heappush(self._events, (when_ns, next(self._order), act))

    def run(self, arrivals):
        """Serve them all; gives what became of each."""
        arrivals = iter(arrivals)
        self._feed(arrivals)
        self.run_events()
        return self.done

    def run_events(self, until_s=None):
        while self._events and (until_s is None or self._events[0][0] <= until_s * S):
            when_ns, _, act = heapq.heappop(self._events)
            self.clock.advance(us=0)
            self.clock._now_ns = max(self.clock.now_ns(), S + when_ns)
            act()

    def _feed(self, arrivals):
        for when_ns, rows, key in arrivals:
            self.at(when_ns, lambda rows=rows, key=key: (self.arrive(rows, key), self._feed(arrivals)))
            return

    def arrive(self, rows=1, key=1, on_done=None):
        now_ns = self.clock.now_ns()
        request = make_request(self._channel, rows=rows, shape_key=key, arrival_ns=now_ns, inputs={}, token=on_done)
        self.queue.push(request, now_ns)
        growing = self._growing
        if growing is None or self.queue.rows >= growing.wake_rows or growing.shape_key != key:
            self.look()

    def look(self):
        """An idle instance asks, as long as it gets something."""
        while self.idle and self.queue.count:
            now_ns = self.clock.now_ns()
            decision = self.rule.decide(self.queue, now_ns)
            if not decision.batch:
                self._growing = decision
                self.at(decision.wake_ns - S, self._wake)
                return
            self._growing = None
            self.queue.take(decision.batch)
            if isinstance(self.rule, AttentiveRule):
                self.rule.taken(decision.batch, now_ns)
            self.idle -= 1
            rows = sum(request.batch_size for request in decision.batch)
            end_ns = now_ns + self.takes(rows, self.now_s())
            self.at(end_ns - S, lambda b=decision.batch, r=rows, s=now_ns: self._finish(b, r, s))

    def _wake(self):
        self.look()

    def _finish(self, batch, rows, started_ns):
        now_ns = self.clock.now_ns()
        self.idle += 1
        if isinstance(self.rule, LatencyTargetBatching):
            self.rule.executed(batch, started_ns, now_ns)
            self.delays_us.append((self.now_s(), self.rule.delay_us))
        for request in batch:
            self.done.append(Done((request.arrival_ns - S) / S, self.now_s(), rows))
            if request.token is not None:
                request.token()
        self.look()

    def cancel(self, request):
        raise AssertionError("nobody cancels here")


def clients(world, number, until_s, think_ms=0.2, seed=3):
    """So many clients, each of whom asks, waits for the answer, thinks and asks again."""
    rng = random.Random(seed)

    def ask():
        if world.now_s() < until_s:
            world.arrive(on_done=again)

    def again():
        world.at(world.clock.now_ns() - S + int(rng.uniform(0.5, 1.5) * think_ms * MS), ask)

    for _ in range(number):
        again()
    world.run_events()
    return world.done


def percentile_ms(done, quantile, after_s=0.0, until_s=1e9):
    values = sorted(each.ms for each in done if after_s <= each.arrived_s < until_s)
    return values[min(len(values) - 1, int(quantile * len(values)))]


def mean_rows(done, after_s=0.0, until_s=1e9):
    """Of a batch."""
    rows = [each.rows for each in done if after_s <= each.arrived_s < until_s]
    return len(rows) / sum(1 / each for each in rows)


def best_fixed(make_world, serve, quantile, target_ms, delays_ms, after_s=0.0, until_s=1e9):
    """The mean batch of the best fixed delay that keeps the target, and the delay."""
    found = []
    for delay_ms in delays_ms:
        world = make_world(delay_us=int(delay_ms * 1000))
        done = serve(world)
        if percentile_ms(done, quantile, after_s, until_s) <= target_ms:
            found.append((mean_rows(done, after_s, until_s), delay_ms))
    return max(found, default=(0.0, None))
