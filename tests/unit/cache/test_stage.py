"""The stage in front of a model's queue: hits, misses, what is never kept, and who gets which answer."""

import numpy as np
import pytest

from charonia.cache.local import LocalCache
from charonia.cache.stage import CacheStage
from charonia.core.errors import BackendError, QueueFullError, UnavailableError
from charonia.core.request import Reply, refuse
from charonia.core.tensor import Tensor
from charonia.core.unread import UnreadBuffer
from charonia.observe.statistics import ModelStatistics
from charonia.observe.summaries import LatencySummaries
from charonia.scheduling.errands import Errands
from charonia.testing.clock import ManualClock
from charonia.testing.log import kept_log
from charonia.testing.requests import KeptReplies, make_request


class Stage:
    """A stage over a queue that keeps requests until the test answers them."""

    def __init__(self, limit_bytes=100_000, store=None):
        self.clock = ManualClock()
        self.log, self.lines = kept_log()
        self.statistics = ModelStatistics(LatencySummaries())
        self.identity = b"one"
        self.queued = []
        self.refused = []
        self.full = False
        self.channel = KeptReplies()
        self.store = store or LocalCache(limit_bytes)
        self.stage = CacheStage(
            self.store,
            lambda: self.identity,
            self._enqueue,
            lambda request, error: self.refused.append((request, error)),
            self.statistics,
            self.clock,
            Errands(),
            self.log,
        )

    def _enqueue(self, request):
        if self.full:
            raise QueueFullError("full")
        request.queue_start_ns = self.clock.now_ns()
        self.queued.append(request)

    def ask(self, value=1.0, channel=None, **options):
        array = np.array([[value]], np.float32)
        inputs = {"I": Tensor.from_numpy("I", array, owned=True)}
        request = make_request(channel or self.channel, inputs=inputs, arrival_ns=self.clock.now_ns(), **options)
        self.stage.enter(request)
        return request

    def answer(self, request, value=7.0, **options):
        assert request.settle()
        request.channel.send([Reply(request, [output(value)], **options)])

    def filled(self, value=1.0, **options):
        self.answer(self.ask(value, **options))
        return self

    def value_of(self, request):
        return self.channel.of(request).outputs[0].numpy().item()

    @property
    def counts(self):
        found = self.statistics
        return found.success.count, found.queue.count, found.cache_hit.count, found.cache_miss.count


def output(value):
    return Tensor.from_numpy("O", np.array([[value]], np.float32))


def test_the_first_is_executed_and_the_second_is_not():
    world = Stage()
    first = world.ask(id="first")
    assert world.queued == [first]
    world.answer(first)
    second = world.ask(id="second")
    assert world.queued == [first]
    assert second.settled
    assert world.value_of(second) == 7.0
    assert world.channel.of(second).request.id == "second"


def test_what_is_counted():
    world = Stage()
    first = world.ask()
    world.clock.advance(us=5)
    world.answer(first)
    assert world.counts == (0, 0, 0, 1)  # the execution counts by itself
    world.ask()
    assert world.counts == (1, 1, 1, 1)
    assert (world.statistics.inference_count, world.statistics.execution_count) == (0, 0)
    hit, miss = world.statistics.summaries.of_cache
    assert (hit.count, miss.count, world.statistics.summaries.request.count) == (1, 1, 0)


def test_equal_requests_at_the_same_time_are_both_executed():
    world = Stage()
    first, second = world.ask(), world.ask()
    assert world.queued == [first, second]
    world.answer(second, 8.0)
    world.answer(first, 7.0)
    assert (world.value_of(first), world.value_of(second)) == (7.0, 8.0)
    assert world.counts[2:] == (0, 2)
    assert world.value_of(world.ask()) == 8.0


def test_an_error_is_not_kept():
    world = Stage()
    first = world.ask()
    refuse(first, BackendError("no"))
    assert world.channel.error_of(first) == "no"
    assert world.ask() in world.queued
    assert world.counts == (0, 0, 0, 0)


@pytest.mark.parametrize("options", [{"final": False}, {"has_response": False}])
def test_several_messages_are_not_kept(options):
    world = Stage()
    first = world.ask()
    first.channel.send([Reply(first, [output(1.0)], **options)])
    if not options.get("final", True):
        assert first.channel is world.channel  # what follows does not come this way
        first.channel.send([Reply(first, [output(2.0)])])
    assert world.ask() in world.queued


def test_response_parameters_are_kept():
    world = Stage()
    world.answer(world.ask(), parameters={"p": 1, "q": "text"})
    for _ in range(2):
        parameters = world.channel.of(world.ask()).parameters
        assert parameters == {"p": 1, "q": "text"}
        parameters.clear()  # they are the caller's


def test_the_memory_of_the_answer_may_be_used_again():
    world = Stage()
    first = world.ask()
    array = np.array([[7.0]], np.float32)
    first.settle()
    first.channel.send([Reply(first, [Tensor.from_numpy("O", array, owned=True)])])
    array[:] = 0
    assert world.value_of(world.ask()) == 7.0


def test_a_refusal_of_the_queue_is_the_callers():
    world = Stage()
    world.full = True
    channel = KeptReplies()
    array = np.array([[1.0]], np.float32)
    request = make_request(channel, inputs={"I": Tensor.from_numpy("I", array, owned=True)})
    with pytest.raises(QueueFullError) as raised:
        world.stage.enter(request)
    refuse(request, raised.value)
    assert channel.error_of(request) == "full"
    assert request.channel is channel


def test_a_cancelled_request_is_left_to_the_queue():
    world = Stage().filled()
    array = np.array([[1.0]], np.float32)
    request = make_request(world.channel, inputs={"I": Tensor.from_numpy("I", array, owned=True)})
    request.cancel()
    world.stage.enter(request)
    assert world.queued[-1] is request


def test_a_changed_model_does_not_answer_from_before():
    world = Stage().filled()
    world.identity = b"two"
    assert world.ask() in world.queued


def test_what_was_executed_while_the_model_changed_is_not_kept():
    world = Stage()
    first = world.ask()
    world.identity = b"two"
    world.answer(first)
    world.identity = b"one"
    assert world.ask() in world.queued


def test_without_an_identity_nothing_is_looked_up_or_kept():
    world = Stage()
    world.identity = None
    world.filled().ask()
    assert len(world.queued) == 2
    assert world.store.counters().lookups == 0


def test_what_is_larger_than_the_cache_is_told_once_and_answered():
    world = Stage(limit_bytes=10)
    for _ in range(2):
        request = world.ask()
        world.answer(request)
        assert world.value_of(request) == 7.0
    assert world.counts == (0, 0, 0, 2)
    assert len([line for line in world.lines.lines if "Failed to insert key" in line]) == 1


def test_replies_of_one_batch_leave_together():
    world = Stage()
    requests = [world.ask(value) for value in (1.0, 2.0, 3.0)]
    sent = []

    class Counted(KeptReplies):
        def send(self, replies):
            sent.append(len(replies))
            super().send(replies)

    channel = Counted()
    requests = [world.ask(value, channel) for value in (4.0, 5.0, 6.0)]
    for request in requests:
        request.settle()
    requests[0].channel.send([Reply(request, [output(1.0)]) for request in requests])
    assert sent == [3]


def test_together_the_missing_are_queued_and_the_others_answered():
    world = Stage().filled(1.0)
    array = [np.array([[value]], np.float32) for value in (1.0, 2.0)]
    known, new = (make_request(world.channel, inputs={"I": Tensor.from_numpy("I", each, owned=True)}) for each in array)
    assert world.stage.expect_missing([known, new]) == [new]
    assert world.value_of(known) == 7.0
    world.answer(new, 9.0)
    assert world.value_of(world.ask(2.0)) == 9.0


def test_together_one_that_cant_be_read_holds_up_no_other():
    def none(nbytes):
        raise UnavailableError("no memory")

    world = Stage()
    wrong = Tensor("I", "FP32", (1, 1), UnreadBuffer(lambda target: None, 4, none))
    right = Tensor.from_numpy("I", np.ones((1, 1), np.float32), owned=True)
    requests = [make_request(world.channel, inputs={"I": each}) for each in (wrong, right)]
    assert world.stage.expect_missing(requests) == requests
    with pytest.raises(UnavailableError):
        world.stage.enter(requests[0])


def test_a_chain_of_hits_does_not_nest():
    """Whoever gets a reply may ask again at once: a thousand times, with a stack of a few frames."""
    import inspect

    world = Stage(limit_bytes=10**8)
    for number in range(1000):
        world.filled(float(number))
    depths = []

    class Chain:
        def send(self, replies):
            depths.append(len(inspect.stack(0)))
            if len(depths) < 1000:
                world.ask(float(len(depths)), self, ancestors=("outer",))

    world.ask(0.0, Chain(), ancestors=("outer",))
    assert len(depths) == 1000
    assert max(depths) - min(depths) < 10


class Remote:
    """A store whose lookups end when the test says so."""

    name = "remote"
    is_shared = True

    def __init__(self):
        self.waiting = []
        self.kept = {}

    def begin_lookup(self, key, found):
        self.waiting.append((key, found))

    def insert(self, key, response):
        self.kept[key] = response
        return True

    def close(self): ...

    def find(self):
        waiting, self.waiting = self.waiting, []
        for key, found in waiting:
            found(self.kept.get(key))


def test_a_remote_store_is_asked_first():
    world = Stage(store=Remote())
    first = world.ask()
    assert (world.queued, world.store.waiting != []) == ([], True)
    world.store.find()
    assert world.queued == [first]
    world.answer(first)
    second = world.ask()
    world.store.find()
    assert world.value_of(second) == 7.0


def test_a_request_that_is_cancelled_during_the_lookup_is_left_to_the_queue():
    world = Stage(store=Remote())
    first = world.ask()
    world.store.find()
    world.answer(first)
    second = world.ask()
    second.cancel()
    world.store.find()
    assert world.queued[-1] is second
    assert not second.settled


def test_a_refusal_after_the_lookup_reaches_the_client_and_is_counted():
    world = Stage(store=Remote())
    request = world.ask()
    world.full = True
    world.store.find()
    assert world.channel.error_of(request) == "full"
    assert world.refused[0][0] is request
