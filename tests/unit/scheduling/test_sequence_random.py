"""Thousands of random operations on sequences, against a simple oracle: no request lost, order kept, nothing mixed."""

import random

import pytest

from charonia.core.errors import InvalidArgumentError, UnavailableError
from tests.unit.scheduling.sequence_world import END, IDLE_US, START, SequenceWorld

IDS = (1, 2, 3, "1", "2", 4, 5, 6, 7)
TEXT_IDS = 'control_input [ { name: "READY" control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } } ]'
STRATEGIES = {
    "direct": "direct { }",
    "direct with delays": "direct { max_queue_delay_microseconds: 300 minimum_slot_utilization: 0.7 }",
    "oldest": "oldest { max_candidate_sequences: 3 }",
    "oldest with delays": "oldest { preferred_batch_size: 2 max_queue_delay_microseconds: 90 }",
    "oldest in order": "oldest { max_candidate_sequences: 4 preserve_ordering: true }",
}


class Oracle:
    """What clients and models know. A client's sequence is a number; its requests are numbered within it.

    Attributes:
        open: by number, the client's sequence that may go on; unsettled: its requests without an answer.
        quiet_ns: since when a sequence has had no unsettled request.
        models: by seat and number, what that instance executed last: (sequence, number).
        place: by sequence, its instance and its slot.
    """

    def __init__(self, world, seed, *, is_direct):
        self.world, self.random, self.is_direct = world, random.Random(seed), is_direct
        self.seats, self.leaving, self.next_seat = ["a", "b"], [], 0
        self.open, self.unsettled, self.quiet_ns = {}, {}, {}
        self.facts, self.sent, self.models, self.place = {}, {}, {}, {}
        self.all, self.running = [], {"a": [], "b": []}
        self.serials = 0

    def enqueue(self):
        number, flags = self.random.choice(IDS), self.random.choice((0, 0, 0, START, END, START | END))
        known = self.open.get(number)
        if flags & START and any(each.cancelled and self.facts[each][0] == known for each in self.executed()):
            known = None  # it is over when that is answered
        shape_key = self.random.choice((1, 1, 1, 1, 2))
        timeout_us = self.random.choice((0, 0, 0, IDLE_US // 2))
        if known is None and not flags & START:
            with pytest.raises(InvalidArgumentError, match="must specify the START flag"):
                self.world.enqueue(number, flags)
            return
        request = self.world.enqueue(number, flags, shape_key=shape_key, timeout_us=timeout_us)
        if known is None:
            self.serials += 1
            known = self.open[number] = self.serials
            self.unsettled[known], self.sent[known] = [], 0
        self.facts[request] = (known, self.sent[known], bool(flags & START))
        self.sent[known] += 1
        self.unsettled[known].append(request)
        self.all.append(request)
        if flags & END:
            del self.open[number]

    def executed(self):
        return [each for requests in self.running.values() for each in requests]

    def pull(self, seat=None):
        seat = seat or self.random.choice(self.seats + self.leaving)
        batch = self.world.pull(seat)
        if batch is None:
            assert seat in self.leaving
            self.leaving.remove(seat)
            assert not self.running[seat]
            return
        if self.is_direct and batch:
            assert not self.running[seat], "a batch before the last one was answered"
            assert not batch[-1].is_padding or any(not each.is_padding for each in batch)
        real = [each for each in batch if not each.is_padding]
        assert len({each.shape_key for each in real}) <= 1
        assert len({self.facts[each][0] for each in real}) == len(real), "two of one sequence"
        for slot, request in enumerate(batch):
            if request.is_padding:
                assert not request.inputs["READY"].numpy().any()
            else:
                self.execute(seat, slot, request)

    def execute(self, seat, slot, request):
        sequence, number, starts = self.facts[request]
        key = (seat, request.correlation_id)
        if not starts:
            assert self.models[key] == (sequence, number - 1), "the model has the state of another sequence"
        self.models[key] = (sequence, number)
        earlier = self.place.setdefault(sequence, (seat, slot if self.is_direct else 0))
        assert earlier == (seat, slot if self.is_direct else 0)
        assert not request.settled
        self.running[seat].append(request)

    def answer(self):
        seat = self.random.choice(list(self.running))
        for request in self.running[seat] if self.random.random() < 0.7 else self.running[seat][:1]:
            self.world.answer(request)
            if request.cancelled:
                self.close(self.facts[request][0])
        self.running[seat] = [each for each in self.running[seat] if not each.settled]

    def cancel(self):
        waiting = [each for requests in self.unsettled.values() for each in requests if not each.settled]
        if not waiting:
            return
        request = self.random.choice(waiting)
        sequence = self.facts[request][0]
        is_running = any(request in running for running in self.running.values())
        request.cancel()
        if is_running:
            assert not request.settled
        else:
            for other in self.unsettled[sequence]:
                assert other.settled or any(other in running for running in self.running.values())
            self.close(sequence)

    def close(self, sequence):
        self.open = {number: each for number, each in self.open.items() if each != sequence}

    def pass_time(self):
        self.world.advance(us=self.random.choice((50, 400, IDLE_US // 3, IDLE_US + 1)))

    def change_instances(self):
        self.next_seat += 1
        new, old = f"seat {self.next_seat}", self.random.choice(self.seats)
        self.running[new] = []
        self.world.scheduler.expect([new])
        self.world.scheduler.dismiss([old])
        self.seats.remove(old)
        self.seats.append(new)
        self.leaving.append(old)

    def lose(self):
        """The next process at the seat knows nothing; it gets what begins with it."""
        seat = self.random.choice(self.seats + self.leaving)
        self.world.scheduler.lost(seat)
        self.running[seat] = [each for each in self.running[seat] if not each.settled]
        self.models = {key: executed for key, executed in self.models.items() if key[0] != seat}
        for request in self.running[seat]:
            sequence, number, starts = self.facts[request]
            assert starts
            self.models[seat, request.correlation_id] = (sequence, number)
        for sequence, (where, _) in list(self.place.items()):
            unsettled = [each for each in self.unsettled[sequence] if not each.settled]
            if where == seat and not unsettled:
                self.close(sequence)

    def look(self):
        """What is settled, what was refused with its sequence, and what has been idle for too long."""
        now_ns = self.world.clock.now_ns()
        for sequence, requests in self.unsettled.items():
            for request in requests:
                if request.settled and self.refusal(request):
                    self.close(sequence)
            had = bool(requests)
            requests[:] = [each for each in requests if not each.settled]
            if had and not requests:
                self.quiet_ns[sequence] = now_ns
            if not requests and now_ns - self.quiet_ns.get(sequence, now_ns) >= IDLE_US * 1000:
                self.close(sequence)

    def refusal(self, request):
        return any(request is refused for refused, _ in self.world.refused)

    def step(self):
        steps = [self.enqueue] * 8 + [self.pull] * 8 + [self.answer] * 8 + [self.cancel, self.pass_time]
        if self.random.random() < 0.02:
            steps = [self.change_instances, self.lose]
        self.random.choice(steps)()
        self.look()

    def drain(self):
        for _ in range(60 + len(self.all)):
            for seat in self.seats + list(self.leaving):
                self.pull(seat)
            while any(self.running.values()):
                self.answer()
            self.world.advance(us=IDLE_US)
            if not self.world.scheduler.sequence_count:
                return


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_random_operations(strategy, seed):
    world = SequenceWorld(STRATEGIES[strategy], seats=("a", "b"), rows=3, controls=TEXT_IDS)
    oracle = Oracle(world, seed, is_direct="direct" in strategy)
    for _ in range(1500):
        oracle.step()
    oracle.drain()
    assert world.scheduler.sequence_count == 0
    assert world.scheduler.pending_count == 0
    assert [request for request in oracle.all if not request.settled] == []
    assert len({id(reply.request) for reply in world.channel.replies}) == len(oracle.all) == len(world.channel.replies)
    assert sum(reply.error is None for reply in world.channel.replies) > len(oracle.all) / 3


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_stop_in_the_middle_settles_everything(strategy, seed):
    world = SequenceWorld(STRATEGIES[strategy], seats=("a", "b"), rows=3, controls=TEXT_IDS)
    oracle = Oracle(world, seed, is_direct="direct" in strategy)
    for _ in range(300):
        oracle.step()
    world.scheduler.stop()
    while any(oracle.running.values()):
        oracle.answer()
    assert [request for request in oracle.all if not request.settled] == []
    assert world.scheduler.pending_count == 0
    assert [world.pull(seat) for seat in oracle.seats] == [None, None]
    with pytest.raises(UnavailableError):
        world.enqueue(1, START)
