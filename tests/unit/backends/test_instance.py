"""The thread of an instance: what it does with batches, with failures of the model, and with bugs of ours."""

from charonia.backends.arranging import OutputArranger
from charonia.backends.base import InstanceSpec
from charonia.backends.instance import InstanceRunner, InstanceServices
from charonia.config.io import OutputSpec
from charonia.core.errors import BackendError, InternalError
from charonia.core.tensor import Tensor
from charonia.observe.statistics import ModelStatistics
from charonia.scheduling.bell import ConditionBell
from charonia.testing.clock import ManualClock
from charonia.testing.requests import KeptReplies, make_request


class Batches:
    """Gives these batches, then no more."""

    def __init__(self, *batches):
        self._batches = list(batches)

    def next_batch(self, bell, seat):
        return self._batches.pop(0) if self._batches else None


class Instance:
    healthy = True
    closed = False

    def __init__(self, start):
        self._start = start

    def start(self, batch):
        self._start(batch)

    def close(self):
        self.closed = True


class BrokenStatistics(ModelStatistics):
    def record_batch(self, stamps, rows, replies):
        raise ZeroDivisionError("a bug of ours")


def echo(batch):
    for request in batch.requests:
        batch.respond(request, [Tensor("O", "FP32", (1, 1), request.inputs["INPUT0"].buffer)])


def made(instance, *batches, statistics=None):
    """A runner that gets these batches, and what is told to be dead."""
    deaths = []
    services = InstanceServices(
        "m",
        Batches(*batches),
        ConditionBell(),
        OutputArranger([OutputSpec("O", "FP32", (1,))], True),
        ManualClock(),
        lambda name, error: deaths.append((name, error)),
    )
    spec = InstanceSpec("m_0", "KIND_CPU", "cpu", 1)
    return InstanceRunner(instance, spec, services, statistics or ModelStatistics()), deaths


def ran(instance, *batches, statistics=None):
    """Run until there is no batch left; gives what ended the thread too early."""
    runner, deaths = made(instance, *batches, statistics=statistics)
    runner.start()
    assert runner.join(20)
    assert instance.closed
    assert not runner.alive
    return deaths


def test_batches_are_executed_until_there_is_none():
    channel = KeptReplies()
    requests = [make_request(channel) for _ in range(3)]
    assert ran(Instance(echo), requests[:2], requests[2:]) == []
    assert [reply.request for reply in channel.replies] == requests


def test_a_model_that_fails_fails_its_batch_and_gets_the_next():
    channel = KeptReplies()
    first, second = make_request(channel), make_request(channel)

    def fails_once(batch):
        if first in batch.requests:
            raise ValueError("no such thing")
        echo(batch)

    assert ran(Instance(fails_once), [first], [second]) == []
    assert isinstance(channel.of(first).error, BackendError)
    assert channel.error_of(first) == "model 'm' failed: ValueError: no such thing"
    assert channel.of(second).error is None


def test_answers_leave_even_when_they_cannot_be_counted():
    channel = KeptReplies()
    request = make_request(channel)
    ((name, error),) = ran(Instance(echo), [request], statistics=BrokenStatistics())
    assert name == "m_0"
    assert isinstance(error, ZeroDivisionError)
    assert channel.of(request).error is None


def test_a_bug_before_the_batch_is_closed_is_told_to_each_request(monkeypatch):
    channel = KeptReplies()
    request = make_request(channel)
    instance = Instance(echo)
    monkeypatch.setattr(InstanceRunner, "run_batch", lambda self, batch: 1 / 0)
    assert len(ran(instance, [request])) == 1
    assert isinstance(channel.of(request).error, InternalError)


def test_a_bug_on_a_thread_that_has_borrowed_the_instance_leaves_it_free(monkeypatch):
    channel = KeptReplies()
    request = make_request(channel)
    runner, deaths = made(Instance(echo))
    monkeypatch.setattr(InstanceRunner, "run_batch", lambda self, batch: 1 / 0)
    runner.driving.acquire()
    runner.give_back([request])
    assert isinstance(channel.of(request).error, InternalError)
    assert [name for name, _ in deaths] == ["m_0"]
    assert not runner.is_busy
    assert not runner.driving.locked()
