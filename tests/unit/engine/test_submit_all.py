"""Requests that are submitted together: the same outcomes as one by one, and quick models driven by who submits."""

import threading

import pytest

from charonia.backends.base import InstanceSpec
from charonia.config.schema import ModelConfig
from charonia.core.errors import InvalidArgumentError, NotFoundError, QueueFullError, UnavailableError
from charonia.engine.engine import Engine
from charonia.engine.model import ModelVersion
from charonia.engine.services import ModelServices
from charonia.scheduling.bell import ConditionBell
from charonia.scheduling.timer import Timer
from charonia.testing.clock import ManualClock
from charonia.testing.requests import KeptReplies, make_request


class Instance:
    healthy = True

    def __init__(self, agile, clock):
        self.any_thread = agile
        self.threads = []
        self.slow_us = 0
        self._clock = clock

    def start(self, batch):
        self.threads.append((threading.get_ident(), len(batch.requests)))
        self._clock.advance(us=self.slow_us)
        for request in batch.requests:
            batch.respond(request, [])

    def close(self): ...


class Backend:
    def __init__(self, agile, clock):
        self.instance = Instance(agile, clock)

    def create_instance(self, spec):
        return self.instance

    def close(self): ...


class Served:
    """A model `m` of one instance, whose thread does not run; and the engine over it."""

    def __init__(self, *, agile=True, options=""):
        self.clock = ManualClock()
        config = ModelConfig(name="m", max_batch_size=8)
        config.input.add(name="INPUT0", data_type="TYPE_FP32", dims=[1])
        config.output.add(name="O", data_type="TYPE_FP32", dims=[1])
        config.dynamic_batching.preferred_batch_size.append(8)
        if options == "limited":
            config.dynamic_batching.default_queue_policy.max_queue_size = 2
        if options == "delayed":
            config.dynamic_batching.max_queue_delay_microseconds = 1000
        if options == "ordered":
            config.dynamic_batching.preserve_ordering = True
        backend = Backend(agile, self.clock)
        self.instance = backend.instance
        services = ModelServices(self.clock, Timer(self.clock), None, lambda name, error: self.deaths.append(error))
        self.deaths = []
        specs = [InstanceSpec("m_0", "KIND_CPU", "cpu", 1)]
        self.model = ModelVersion("m", 1, config, {}, backend, specs, ConditionBell(), 0, services)
        self.engine = Engine(self)
        self.channel = KeptReplies()

    def find(self, name, version):
        if name != "m":
            raise NotFoundError(f"no '{name}'")
        return self.model

    def find_leaving(self, name, version):
        return None

    def become_quick(self):
        runner = self.model.instances[0]
        for _ in range(40):
            self.model.submit(make_request(self.channel))
            runner._drive(self.model.scheduler.next_batch(ConditionBell(), runner))
        self.instance.threads.clear()
        self.channel.replies.clear()

    def submit(self, count, **options):
        requests = [make_request(self.channel, **options) for _ in range(count)]
        self.engine.submit_all(requests)
        return requests


@pytest.mark.parametrize("agile", [True, False])
def test_one_that_is_not_known_to_be_quick_is_left_to_its_own_thread(agile):
    served = Served(agile=agile)
    served.submit(3)
    assert (served.model.pending_count, served.instance.threads) == (3, [])


def test_a_quick_one_is_driven_by_who_submits_in_one_batch():
    served = Served()
    served.become_quick()
    requests = served.submit(3)
    assert served.instance.threads == [(threading.get_ident(), 3)]
    assert [served.channel.of(request).error for request in requests] == [None] * 3
    assert (served.model.in_flight, served.model.pending_count) == (0, 0)


def test_a_fault_of_the_server_leaves_the_instance_to_others(monkeypatch):
    served = Served()
    served.become_quick()
    with monkeypatch.context() as broken:
        broken.setattr(served.model.scheduler, "_push", None)
        (request,) = served.submit(1)
    assert "fault of the server" in str(served.channel.of(request).error)
    served.submit(2)
    assert served.instance.threads == [(threading.get_ident(), 2)]
    assert served.model.in_flight == 0


def test_what_exceeds_one_batch_is_left_to_its_own_thread():
    served = Served()
    served.become_quick()
    served.submit(20)
    assert served.instance.threads == [(threading.get_ident(), 8)]
    assert served.model.pending_count == 12


def test_one_that_turns_slow_is_left_alone_again():
    served = Served()
    served.become_quick()
    served.instance.slow_us = 100_000
    served.submit(1)
    served.submit(1)
    assert (len(served.instance.threads), served.model.pending_count) == (1, 1)


def test_one_that_is_busy_is_not_waited_for():
    served = Served()
    served.become_quick()
    runner = served.model.instances[0]
    assert runner.borrow()
    served.submit(2)
    assert (served.instance.threads, served.model.pending_count) == ([], 2)
    runner.give_back()
    assert runner.borrow()
    runner.give_back()


@pytest.mark.parametrize("agile", [True, False])
def test_a_thread_that_waits_anyway_drives_what_is_brief(agile):
    served = Served(agile=agile)
    served.become_quick()
    runner = served.model.instances[0]
    runner._usual_ns = 500_000
    assert not runner.borrow()
    request = make_request(served.channel)
    served.engine.submit_waiting(request)
    assert served.instance.threads == [(threading.get_ident(), 1)]
    assert served.channel.of(request).error is None
    assert served.model.in_flight == 0


def test_a_thread_that_waits_leaves_what_takes_long_or_is_not_well_to_the_instance():
    served = Served()
    served.engine.submit_waiting(make_request(served.channel))
    served.model.instances[0]._usual_ns = 0
    served.instance.healthy = False
    served.engine.submit_waiting(make_request(served.channel))
    assert (served.instance.threads, served.model.pending_count) == ([], 2)


def test_a_thread_that_waits_needs_the_outcome_before_its_own_errands():
    served = Served()
    served.become_quick()
    errands, seen = served.model._services.errands, []

    def errand():
        served.engine.submit_waiting(make_request(served.channel))
        seen.append(len(served.channel.replies))

    errands.run(errand)
    assert seen == [1]


def test_a_thread_that_waits_is_told_what_is_wrong():
    served = Served()
    served.become_quick()
    wrong = make_request(served.channel, requested_outputs=("NOPE",))
    unknown = make_request(served.channel, "other")
    served.engine.submit_waiting(wrong)
    served.engine.submit_waiting(unknown)
    assert isinstance(served.channel.of(wrong).error, InvalidArgumentError)
    assert isinstance(served.channel.of(unknown).error, NotFoundError)
    assert not served.model.instances[0].driving.locked()


def test_a_delay_is_kept():
    served = Served(options="delayed")
    runner = served.model.instances[0]
    runner._usual_ns = 0
    served.submit(3)
    assert (served.instance.threads, served.model.pending_count) == ([], 3)
    served.submit(5)
    assert served.instance.threads == [(threading.get_ident(), 8)]


@pytest.mark.parametrize("options", ["", "limited", "ordered"])
def test_each_is_told_its_own_refusal(options):
    served = Served(options=options)
    good = [make_request(served.channel) for _ in range(2)]
    wrong = make_request(served.channel, requested_outputs=("NOPE",))
    surplus = make_request(served.channel)
    served.engine.submit_all([good[0], wrong, good[1], surplus])
    assert isinstance(served.channel.of(wrong).error, InvalidArgumentError)
    refused = [reply.request for reply in served.channel.replies]
    assert refused == ([wrong, surplus] if options == "limited" else [wrong])
    if options == "limited":
        assert isinstance(served.channel.of(surplus).error, QueueFullError)
        assert served.model.statistics.failures["REJECTED"] == 1
    assert served.model.in_flight == (2 if options == "limited" else 3)


def test_those_of_several_models_go_their_ways():
    served = Served()
    known, unknown = make_request(served.channel), make_request(served.channel, "other")
    served.engine.submit_all([known, unknown])
    assert isinstance(served.channel.of(unknown).error, NotFoundError)
    assert served.model.pending_count == 1


@pytest.mark.parametrize("how", ["retire", "stop"])
def test_a_model_that_leaves_takes_none(how):
    served = Served()
    if how == "retire":
        served.model.retire()
    else:
        served.model.scheduler.stop()
    requests = served.submit(2)
    assert all(isinstance(served.channel.of(request).error, UnavailableError) for request in requests)
    assert served.model.in_flight == 0


def test_a_cancelled_one_among_them_leaves_the_queue():
    served = Served()
    requests = [make_request(served.channel) for _ in range(2)]
    requests[0].cancelled = True
    served.engine.submit_all(requests)
    assert served.model.pending_count == 1
    assert served.channel.of(requests[0]).error is not None


def test_an_instance_that_has_ended_is_not_driven():
    served = Served()
    served.become_quick()
    runner = served.model.instances[0]
    served.model.start()
    assert served.model.stop(20)
    assert not runner.borrow()
    assert served.deaths == []
