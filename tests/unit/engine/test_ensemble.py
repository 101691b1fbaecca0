"""An ensemble as a model version: what it says of itself by its steps."""

import pytest

from charonia.core.errors import NotFoundError
from charonia.engine.ensemble import EnsembleVersion
from charonia.engine.services import ModelServices
from charonia.scheduling.timer import Timer
from charonia.testing.clock import ManualClock
from tests.unit.pipelines.ensembles import config_of


class Step:
    def __init__(self, *, route=7, has_sequences=False, live_instances=1):
        self.route = route
        self.has_sequences = has_sequences
        self.live_instances = live_instances
        self.ended = []

    def end_sequence(self, correlation_id):
        self.ended.append(correlation_id)


class Models:
    def __init__(self, steps):
        self._steps = steps

    def find(self, name, version):
        if name not in self._steps:
            raise NotFoundError(name)
        return self._steps[name]


def version(steps, **models):
    clock = ManualClock()
    directory = Models(models)
    services = ModelServices(clock, Timer(clock), None, print, directory=lambda: directory)
    return EnsembleVersion("e", 1, config_of(steps), {}, services)


CHAIN = "a: IN>IN -> OUT>x\nb/3: IN>x -> OUT>OUT"
SIDE_BY_SIDE = "a: IN>IN -> OUT>x\nb: IN>IN -> OUT>y\nc: IN>x, IN1>y -> OUT>OUT"


def test_it_needs_its_steps():
    assert version(CHAIN).needs == (("a", -1), ("b", 3))


@pytest.mark.parametrize(
    ("steps", "models", "route"),
    [
        (CHAIN, {"a": Step(route=5), "b": Step()}, 5),
        (CHAIN, {"a": Step(route=0), "b": Step()}, 0),
        (CHAIN, {"b": Step()}, 0),
        (CHAIN, {"a": Step(), "b": Step(has_sequences=True)}, 0),  # the order of arrival counts
        (SIDE_BY_SIDE, {"a": Step(), "b": Step(), "c": Step()}, 0),
    ],
)
def test_calls_go_where_the_instances_of_its_one_first_step_wait(steps, models, route):
    assert version(steps, **models).route == route


@pytest.mark.parametrize(
    ("models", "live"),
    [
        ({"a": Step(), "b": Step()}, 1),
        ({"a": Step(), "b": Step(live_instances=0)}, 0),
        ({"a": Step()}, 0),
    ],
)
def test_it_lives_while_all_its_steps_do(models, live):
    assert version(CHAIN, **models).live_instances == live


def test_a_sequence_that_is_ended_ends_in_each_step():
    a, b = Step(), Step()
    version(CHAIN, a=a, b=b).end_sequence(5)
    assert (a.ended, b.ended) == ([5], [5])


def test_it_has_nothing_to_start_and_stops_at_once():
    model = version(CHAIN, a=Step(), b=Step())
    model.start()
    assert model.stop(0)
