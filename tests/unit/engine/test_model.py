"""One loaded version: what it takes, what it counts, how it ends."""

import threading

import pytest
from google.protobuf import text_format

from charonia.backends.base import InstanceSpec
from charonia.backends.instance import InstanceRunner
from charonia.config.schema import ModelConfig
from charonia.core.errors import BackendError, InvalidArgumentError, UnavailableError
from charonia.core.request import SEQUENCE_START, refuse
from charonia.engine.engine import Engine
from charonia.engine.model import ModelVersion, RetiredError
from charonia.engine.services import ModelServices
from charonia.scheduling.bell import ConditionBell
from charonia.scheduling.timer import Timer
from charonia.testing.clock import ManualClock
from charonia.testing.requests import KeptReplies, make_request
from tests.unit.engine.one_model import OneModel

SPECS = [InstanceSpec(f"m_{number}", "KIND_CPU", "cpu", 1) for number in range(2)]


class Instance:
    healthy = True

    def __init__(self):
        self.closed = 0

    def start(self, batch):
        for request in batch.requests:
            batch.respond(request, [])

    def close(self):
        self.closed += 1


class Backend:
    def __init__(self, *, fails_at=None):
        self.made = []
        self.closed = 0
        self._fails_at = fails_at

    def create_instance(self, spec):
        if spec.name == self._fails_at:
            raise BackendError(f"{spec.name} can't be made")
        self.made.append(Instance())
        return self.made[-1]

    def close(self):
        self.closed += 1


def version(backend, sequences="", specs=SPECS):
    config = ModelConfig(name="m", max_batch_size=8)
    if sequences:
        text_format.Parse(f"sequence_batching {{ {sequences} }}", config)
    config.input.add(name="INPUT0", data_type="TYPE_FP32", dims=[1])
    config.output.add(name="O", data_type="TYPE_FP32", dims=[1])
    clock = ManualClock()
    deaths = []
    services = ModelServices(clock, Timer(clock), None, lambda name, error: deaths.append(error))
    return ModelVersion("m", 3, config, {}, backend, specs, ConditionBell(), 0, services)


def test_a_request_is_counted_until_it_is_settled():
    model = version(Backend())
    request = make_request(KeptReplies())
    model.submit(request)
    assert (model.in_flight, model.pending_count, request.version) == (1, 1, "3")
    assert not model.wait_idle(0)
    request.cancel()
    assert (model.in_flight, model.pending_count) == (0, 0)
    assert model.wait_idle(0)
    assert model.statistics.failures["CANCELED"] == 1


def test_a_request_that_does_not_fit_is_the_callers_and_then_counts_no_more():
    model = version(Backend())
    request = make_request(KeptReplies(), requested_outputs=("NOPE",))
    with pytest.raises(InvalidArgumentError) as raised:
        model.submit(request)
    assert not request.settled
    refuse(request, raised.value)
    assert model.in_flight == 0


def test_a_retired_version_leaves_the_request_as_it_was():
    model = version(Backend())
    model.retire()
    request = make_request(KeptReplies())
    with pytest.raises(RetiredError):
        model.submit(request)
    assert (request.admission, request.version, model.in_flight) == (None, "", 0)


def test_stop_settles_what_waits_and_frees_everything():
    backend = Backend()
    model = version(backend)
    channel = KeptReplies()
    request = make_request(channel)
    model.submit(request)
    assert model.stop(20)
    assert isinstance(channel.of(request).error, UnavailableError)
    assert [instance.closed for instance in backend.made] == [1, 1]
    assert backend.closed == 1


def test_running_instances_answer_and_end():
    backend = Backend()
    model = version(backend)
    channel = KeptReplies()
    model.start()
    model.submit(make_request(channel))
    assert model.wait_idle(20)
    assert model.stop(20)
    assert [reply.error for reply in channel.replies] == [None]
    assert model.live_instances == 0


class CallsOnce:
    """A channel: once it has an answer, it calls the model on the thread that brought it, which is the instance's."""

    def __init__(self, model):
        self.kept = KeptReplies()
        self.has_called = threading.Event()
        self._engine = Engine(OneModel(model))
        self._call = make_request(self.kept, ancestors=("m",))

    def send(self, replies):
        self._engine.submit(self._call)
        self.has_called.set()


def test_an_instance_is_free_for_whoever_has_its_answer():
    """Though its thread has more to do for the batch."""
    model = version(Backend(), specs=SPECS[:1])
    channel = CallsOnce(model)
    model.start()
    model.submit(make_request(channel))
    assert channel.has_called.wait(20)
    assert model.wait_idle(20)
    assert model.stop(20)
    assert [reply.error for reply in channel.kept.replies] == [None]


def test_an_instance_is_busy_while_the_code_of_its_model_runs():
    backend = Backend()
    model = version(backend, specs=SPECS[:1])
    channel = KeptReplies()
    inner = make_request(channel, ancestors=("m",))

    def calls_itself(batch):
        Engine(OneModel(model)).submit(inner)
        for request in batch.requests:
            batch.respond(request, [])

    backend.made[0].start = calls_itself
    model.start()
    model.submit(make_request(channel))
    assert model.wait_idle(20)
    assert model.stop(20)
    assert "none of its instances is free" in channel.error_of(inner)


@pytest.mark.parametrize("name", ["m_0", "m_1"])
def test_an_instance_that_cannot_be_made_leaves_nothing_behind(name):
    backend = Backend(fails_at=name)
    with pytest.raises(BackendError, match=f"{name} can't be made"):
        version(backend)
    assert [instance.closed for instance in backend.made] == [1]
    assert backend.closed == 1


@pytest.mark.parametrize(("sequences", "last"), [("", 2), ("direct { }", 1)])
def test_a_version_is_given_up_with_the_last_instance_that_a_bug_ends(monkeypatch, sequences, last):
    """Of those that have sequences, each has its own."""
    monkeypatch.setattr(InstanceRunner, "run_batch", lambda self, batch: 1 / 0)
    model = version(Backend(), sequences)
    died = threading.Semaphore(0)
    for runner in model.instances:
        runner.health_changed = died.release
    model.start()
    for number in range(1, last + 1):
        assert model.failure is None
        model.submit(start_of(number, KeptReplies()))
        assert died.acquire(timeout=20)
        assert model.live_instances == 2 - number
    assert "ended by a fault of the server: ZeroDivisionError" in model.failure
    assert model.stop(20)


def test_an_instance_that_a_bug_ended_is_not_free():
    model = version(Backend(), specs=SPECS[:1])
    assert model.may_call_itself
    model.instances[0].failure = "a bug of ours"
    assert not model.may_call_itself


class Listener(Instance):
    def __init__(self):
        super().__init__()
        self.told = []

    def sequence_ended(self, correlation_id, reason):
        self.told.append((correlation_id, reason))


class Listening(Backend):
    def create_instance(self, spec):
        self.made.append(Listener())
        return self.made[-1]


def start_of(number, channel):
    return make_request(channel, correlation_id=number, flags=SEQUENCE_START)


def test_the_instance_of_a_sequence_hears_of_its_end():
    model = version(Listening(), "max_sequence_idle_microseconds: 1000")
    channel = KeptReplies()
    model.start()
    for number in (7, 8):
        model.submit(start_of(number, channel))
        assert model.wait_idle(20)
    model._services.clock.advance(ms=1)
    model._services.timer.run_due()
    assert [runner.instance.told for runner in model.instances] == [[(7, "idle")], [(8, "idle")]]
    assert model.stop(20)


def test_a_wrong_request_of_a_sequence_is_no_failure_of_the_model():
    model = version(Backend(), "direct { }")
    request = make_request(KeptReplies(), correlation_id=7)
    with pytest.raises(InvalidArgumentError, match="must specify the START flag"):
        model.submit(request)
    refuse(request, InvalidArgumentError("no start"))
    assert (sum(model.statistics.failures.values()), model.in_flight) == (0, 0)
    assert model.stop(20)


def test_sequences_of_an_instance_that_is_down_are_over():
    model = version(Backend(), "direct { }")
    channel = KeptReplies()
    model.start()
    model.submit(start_of(7, channel))
    assert model.wait_idle(20)
    runner = model.instances[0]
    model.health_changed(runner)
    assert model.scheduler.sequence_count == 1
    runner.instance.healthy = False
    model.health_changed(runner)
    assert model.scheduler.sequence_count == 0
    assert model.stop(20)


def test_an_update_does_not_wait_for_sequences_and_a_stop_ends_their_instances():
    backend = Backend()
    model = version(backend, "direct { }")
    channel = KeptReplies()
    model.start()
    for number in (7, 8):
        model.submit(start_of(number, channel))
    assert model.wait_idle(20)
    kept, leaving = model.instances
    assert model.adopt(model.config, [kept], [])
    assert leaving.alive
    for number in (8, 7):
        model.submit(make_request(channel, correlation_id=number))
    assert model.wait_idle(20)
    assert [reply.error for reply in channel.replies] == [None] * 4
    assert model.stop(20)
    assert [instance.closed for instance in backend.made] == [1, 1]
    assert backend.closed == 1
