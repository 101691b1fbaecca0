"""Other instances for a model version that serves."""

import threading

import pytest

from charonia.backends.base import InstanceSpec
from charonia.config.schema import ModelConfig
from charonia.core.errors import BackendError
from charonia.engine.model import ModelVersion
from charonia.engine.services import ModelServices
from charonia.engine.update import InstanceUpdate, matched
from charonia.scheduling.bell import ConditionBell
from charonia.scheduling.timer import Timer
from charonia.testing.clock import ManualClock
from charonia.testing.requests import KeptReplies, make_request

PATIENCE_S = 20.0


class Instance:
    healthy = True

    def __init__(self, name):
        self.name = name
        self.closed = False
        self.may_go_on = threading.Event()
        self.may_go_on.set()
        self.entered = threading.Event()

    def start(self, batch):
        self.entered.set()
        assert self.may_go_on.wait(PATIENCE_S)
        for request in batch.requests:
            batch.respond(request, [])

    def close(self):
        self.closed = True


class Backend:
    def __init__(self):
        self.made = {}
        self.closed = False
        self.refuses = ""

    def create_instance(self, spec):
        if spec.name == self.refuses:
            raise BackendError(f"{spec.name} can't be made")
        self.made[spec.name] = Instance(spec.name)
        return self.made[spec.name]

    def close(self):
        self.closed = True


def specs(*names, kind="KIND_CPU", device="cpu"):
    return [InstanceSpec(name, kind, device, 1) for name in names]


def config(rows=8):
    made = ModelConfig(name="m", max_batch_size=rows)
    made.input.add(name="INPUT0", data_type="TYPE_FP32", dims=[1])
    made.output.add(name="O", data_type="TYPE_FP32", dims=[1])
    return made


class World:
    """A model that serves with the instances `a` and `b`."""

    def __init__(self):
        clock = ManualClock()
        self.backend = Backend()
        self.deaths = []
        services = ModelServices(clock, Timer(clock), None, lambda name, error: self.deaths.append(error))
        self.model = ModelVersion("m", 3, config(), {}, self.backend, specs("a", "b"), ConditionBell(), 0, services)
        self.channel = KeptReplies()
        self.model.start()

    def update(self, *wanted):
        return InstanceUpdate(self.model, config(), [spec for group in wanted for spec in group])

    def names(self):
        return [runner.instance.name for runner in self.model.instances]

    def submit(self):
        request = make_request(self.channel)
        self.model.submit(request)
        return request


@pytest.fixture
def world():
    made = World()
    yield made
    for instance in made.backend.made.values():
        instance.may_go_on.set()
    assert made.model.stop(PATIENCE_S)
    assert all(instance.closed for instance in made.backend.made.values())
    assert made.deaths == []


def test_more_instances(world):
    world.update(specs("a", "b", "c")).commit()
    assert world.names() == ["a", "b", "c"]
    assert world.model.live_instances == 3


def test_fewer_instances_and_the_one_that_leaves_is_closed(world):
    world.update(specs("b")).commit()
    assert world.names() == ["b"]
    assert world.backend.made["a"].closed
    assert not world.backend.made["b"].closed
    world.submit()
    assert world.model.wait_idle(PATIENCE_S)


def test_other_names_for_the_same_place_touch_nothing(world):
    before = list(world.model.instances)
    world.update(specs("x"), specs("y")).commit()
    assert list(world.model.instances) == before


def test_another_device_is_another_instance(world):
    world.update(specs("a"), specs("g", kind="KIND_GPU", device="gpu:0")).commit()
    assert world.names() == ["a", "g"]
    assert world.backend.made["b"].closed


def test_all_instances_at_once_and_no_request_is_lost(world):
    requests = [world.submit() for _ in range(50)]
    world.update(specs("g", kind="KIND_GPU", device="gpu:0")).commit()
    requests += [world.submit() for _ in range(50)]
    assert world.model.wait_idle(PATIENCE_S)
    assert world.names() == ["g"]
    assert len(world.channel.replies) == len(requests)
    assert all(reply.error is None for reply in world.channel.replies)


def test_what_an_instance_that_leaves_is_executing_is_answered_first(world):
    for instance in world.backend.made.values():
        instance.may_go_on.clear()
    requests = [world.submit(), world.submit()]
    for instance in world.backend.made.values():
        assert instance.entered.wait(PATIENCE_S)
    update = world.update(specs("c", kind="KIND_MODEL"))
    committing = threading.Thread(target=update.commit)
    committing.start()
    late = world.submit()  # the new instance takes it meanwhile
    assert world.backend.made["c"].entered.wait(PATIENCE_S)
    assert committing.is_alive()
    for instance in world.backend.made.values():
        instance.may_go_on.set()
    committing.join(PATIENCE_S)
    assert world.model.wait_idle(PATIENCE_S)
    assert {id(reply.request) for reply in world.channel.replies} == {id(each) for each in (*requests, late)}


def test_an_update_that_is_discarded_changes_nothing(world):
    before = list(world.model.instances)
    world.update(specs("a", "b", "c")).discard()
    assert list(world.model.instances) == before
    assert world.backend.made["c"].closed


def test_an_instance_that_can_not_be_made_changes_nothing(world):
    before = list(world.model.instances)
    world.backend.refuses = "d"
    with pytest.raises(BackendError, match="d can't be made"):
        world.update(specs("a", "b", "c", "d"))
    assert list(world.model.instances) == before
    assert world.backend.made["c"].closed
    assert not world.backend.closed


def test_an_update_of_a_version_that_is_being_unloaded_is_dropped(world):
    update = world.update(specs("a", "b", "c"))
    world.model.retire()
    update.commit()
    assert world.names() == ["a", "b"]
    assert world.backend.made["c"].closed


def test_instances_of_the_same_name_stay_before_others(world):
    kept, missing = matched(world.model.instances, specs("b", "c"))
    assert [runner.spec.name for runner in kept] == ["a", "b"]
    assert missing == []
    kept, missing = matched(world.model.instances, specs("b"))
    assert [runner.spec.name for runner in kept] == ["b"]
