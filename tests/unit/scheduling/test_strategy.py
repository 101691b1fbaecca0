"""A user's strategy has the last word on who joins; whatever it does, requests are served."""

from asyncio import CancelledError

import pytest

from charonia.core.batching import Model, Request, Strategy
from charonia.scheduling.delay_plan import LatencyTarget
from charonia.scheduling.forming import DynamicBatching
from charonia.scheduling.latency_target import LatencyTargetBatching
from charonia.scheduling.queue import PriorityLevels, RequestQueue
from charonia.scheduling.strategy import StrategyBatching
from charonia.testing.log import kept_log
from charonia.testing.requests import KeptReplies, make_request

NOW_NS = 5_000_000_000


class Rows:
    """At most so many rows; writes down what it is asked."""

    def __init__(self, limit):
        self.limit = limit
        self.asked = []

    def start_batch(self):
        self.asked.append("start")
        return {"rows": 0}

    def may_join(self, batch, request):
        self.asked.append(request.id)
        batch["rows"] += request.rows
        return batch["rows"] <= self.limit

    def finish_batch(self, batch):
        self.asked.append(f"finish {batch['rows']}")


class World:
    def __init__(self, strategy, delay_us=0, max_rows=16, levels=0):
        self.log, self.lines = kept_log()
        self.rule = StrategyBatching(DynamicBatching(max_rows, (), delay_us), strategy, "m", self.log)
        self.queue = RequestQueue(self, PriorityLevels(levels, max(1, levels)))
        self.now_ns = NOW_NS

    def push(self, *ids, rows=1, **options):
        made = [make_request(KeptReplies(), rows=rows, id=each, **options) for each in ids]
        for request in made:
            self.queue.push(request, self.now_ns)
        return made

    def look(self):
        """The ids of the batch that an instance gets; it is taken."""
        decision = self.rule.decide(self.queue, self.now_ns)
        if decision.batch:
            self.queue.take(decision.batch)
            self.rule.taken(decision.batch, self.now_ns)
        return "".join(request.id for request in decision.batch)

    def cancel(self, request):
        raise AssertionError("nobody cancels here")


def test_a_batch_ends_where_the_strategy_says_so():
    strategy = Rows(3)
    world = World(strategy)
    world.push(*"abcdefgh")
    assert [world.look() for _ in range(4)] == ["abc", "def", "gh", ""]
    assert strategy.asked[:6] == ["start", "a", "b", "c", "d", "finish 4"]
    assert strategy.asked[-4:] == ["start", "g", "h", "finish 2"]


def test_the_batchers_own_limits_hold_beside_it():
    world = World(Rows(100), max_rows=2)
    world.push(*"abc")
    assert [world.look(), world.look()] == ["ab", "c"]


def test_a_request_that_may_not_even_begin_a_batch_goes_alone():
    world = World(Rows(3))
    world.push("a", rows=5)
    world.push("b")
    assert [world.look(), world.look()] == ["a", "b"]


def test_while_a_batch_grows_each_request_is_asked_about_once():
    strategy = Rows(10)
    world = World(strategy, delay_us=1000)
    world.push("a")
    assert world.look() == ""
    world.push("b")
    assert world.look() == ""
    assert world.look() == ""
    world.now_ns += 1_000_000
    world.push("c")
    assert world.look() == "abc"
    assert strategy.asked == ["start", "a", "b", "c", "finish 3"]


def test_a_batch_that_is_full_by_the_strategy_does_not_wait():
    world = World(Rows(2), delay_us=1000)
    world.push(*"abc")
    assert world.look() == "ab"


def test_a_batch_of_which_one_is_gone_is_counted_anew():
    strategy = Rows(10)
    world = World(strategy, delay_us=1000)
    _, gone, _ = world.push(*"abc")
    assert world.look() == ""
    world.queue.remove(gone)
    world.now_ns += 1_000_000
    assert world.look() == "ac"
    assert strategy.asked == ["start", "a", "b", "c", "finish 3", "start", "a", "c", "finish 2"]


def test_a_more_urgent_request_is_asked_about_first():
    strategy = Rows(10)
    world = World(strategy, delay_us=1000, levels=2)
    world.push("b", priority=2)
    assert world.look() == ""
    world.push("a", priority=1)
    world.now_ns += 1_000_000
    assert world.look() == "ab"
    assert strategy.asked == ["start", "b", "finish 1", "start", "a", "b", "finish 2"]


def test_nothing_is_kept_when_all_have_left():
    strategy = Rows(10)
    world = World(strategy, delay_us=1000)
    (only,) = world.push("a")
    world.look()
    world.queue.remove(only)
    assert world.look() == ""
    assert strategy.asked == ["start", "a", "finish 1"]


@pytest.mark.parametrize(
    ("hook", "batches"), [("start_batch", "a b c"), ("may_join", "a b c"), ("finish_batch", "abc")]
)
@pytest.mark.parametrize("error", [ValueError("of the user"), SystemExit(3), CancelledError(), KeyboardInterrupt()])
def test_a_strategy_that_fails_harms_nobody_and_is_told_of_once(hook, batches, error):
    def fail(*args):
        raise error

    strategy = Rows(10)
    setattr(strategy, hook, fail)
    world = World(strategy)
    for _ in range(2):
        requests = world.push(*"abc")
        got = [world.look() for _ in batches.split()]
        assert " ".join(got) == batches
        assert not any(request.settled for request in requests)
    (line,) = world.lines.lines
    assert f"model 'm': {hook} of its batching strategy failed" in line
    assert str(error) in line


def test_an_error_at_one_request_ends_the_batch_before_it():
    class Picky(Rows):
        def may_join(self, batch, request):
            return super().may_join(batch, request) and 1 / (request.id != "c") > 0

    world = World(Picky(10))
    world.push(*"abcd")
    assert [world.look(), world.look()] == ["ab", "cd"]
    assert len(world.lines.lines) == 1


def test_answers_that_are_no_truth_values():
    class Odd(Rows):
        def may_join(self, batch, request):
            return {"a": 1, "b": "yes", "c": None, "d": []}[request.id]

    world = World(Odd(10))
    world.push(*"abcd")
    assert [world.look(), world.look(), world.look()] == ["ab", "c", "d"]


def test_with_a_latency_target():
    log, _ = kept_log()
    world = World(Rows(3))
    world.rule = LatencyTargetBatching(world.rule, LatencyTarget(0.95, 20_000_000), "p95", "m", log)
    world.push(*"abcdefgh")
    assert [world.look() for _ in range(4)] == ["abc", "def", "gh", ""]


def test_what_a_strategy_sees_of_a_request():
    request = make_request(KeptReplies(), rows=3, id="x", priority=2, parameters={"user": "a"})
    request.batch_size = 3
    view = Request(request)
    assert (view.id, view.rows, view.priority, view.byte_size) == ("x", 3, 2, 12)
    assert dict(view.parameters) == {"user": "a"}
    (one,) = view.inputs.values()
    assert (one.name, one.datatype, one.shape, one.byte_size) == ("INPUT0", "FP32", (3, 1), 12)
    for what, name in ((view, "id"), (view, "extra"), (one, "shape")):
        with pytest.raises(AttributeError):
            setattr(what, name, 1)
    with pytest.raises(TypeError):
        view.parameters["user"] = "b"


def test_the_public_names():
    from charonia import batching

    assert (batching.Strategy, batching.Model, batching.Request) == (Strategy, Model, Request)
