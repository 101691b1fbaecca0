"""One loaded version: what it takes, what it counts, how it ends."""

import pytest

from charonia.backends.base import InstanceSpec
from charonia.config.schema import ModelConfig
from charonia.core.errors import BackendError, InvalidArgumentError, UnavailableError
from charonia.core.request import refuse
from charonia.engine.model import ModelServices, ModelVersion, RetiredError
from charonia.scheduling.bell import ConditionBell
from charonia.scheduling.timer import Timer
from charonia.testing.clock import ManualClock
from charonia.testing.requests import KeptReplies, make_request

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


def version(backend):
    config = ModelConfig(name="m", max_batch_size=8)
    config.input.add(name="INPUT0", data_type="TYPE_FP32", dims=[1])
    config.output.add(name="O", data_type="TYPE_FP32", dims=[1])
    clock = ManualClock()
    deaths = []
    services = ModelServices(clock, Timer(clock), None, lambda name, error: deaths.append(error))
    return ModelVersion("m", 3, config, {}, backend, SPECS, ConditionBell(), 0, services)


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


@pytest.mark.parametrize("name", ["m_0", "m_1"])
def test_an_instance_that_cannot_be_made_leaves_nothing_behind(name):
    backend = Backend(fails_at=name)
    with pytest.raises(BackendError, match=f"{name} can't be made"):
        version(backend)
    assert [instance.closed for instance in backend.made] == [1]
    assert backend.closed == 1
