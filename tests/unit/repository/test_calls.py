"""Models that load and unload others from their own code, while they are loaded themselves and later."""

import threading

import pytest

from charonia.backends.identity import IdentityBackend
from charonia.core.errors import CharoniaError, InvalidArgumentError
from charonia.core.overrides import NO_OVERRIDES
from charonia.core.request import ANY_VERSION
from tests.unit.repository.served import Repository, Served
from tests.unit.repository.test_ensembles import add_ensemble

PATIENCE_S = 20.0


@pytest.fixture
def served(tmp_path, monkeypatch):
    """While a model is loaded, its parameters `loads` and `unloads` name others that its own code loads or unloads."""
    calls = {}
    original = IdentityBackend.load

    def load(backend, context):
        models, parameters = context.server.models, context.config.parameters
        calls[context.name] = models
        if "loads" in parameters:
            models.load(parameters["loads"].string_value, NO_OVERRIDES)
            assert models.is_ready(parameters["loads"].string_value, ANY_VERSION)
        if "unloads" in parameters:
            models.unload(parameters["unloads"].string_value, False)
        return original(backend, context)

    monkeypatch.setattr(IdentityBackend, "load", load)
    repository = Repository(tmp_path / "models")
    repository.add("plain", 1)
    made = Served(repository, mode="explicit", model_load_thread_count=1)
    made.repository, made.calls = repository, calls
    yield made
    made.close()


def add(served, name, what="loads", other="plain"):
    served.repository.add(name, 1, more=f'parameters {{ key: "{what}" value {{ string_value: "{other}" }} }}')


def load(served, name):
    """On a thread of its own, so that a deadlock fails the test."""
    errors = []

    def run():
        try:
            served.control.load(name, NO_OVERRIDES)
        except CharoniaError as error:
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive(), "the load waits for ever"
    if errors:
        raise errors[0]


def ready(served):
    return [each.name for each in served.server.models.loaded()]


def test_a_model_loads_another_while_it_is_loaded_with_one_thread_that_loads(served):
    add(served, "first")
    add(served, "second", other="first")
    load(served, "second")
    assert ready(served) == ["first", "plain", "second"]


def test_a_model_unloads_another_while_it_is_loaded(served):
    add(served, "first", "unloads")
    load(served, "plain")
    load(served, "first")
    assert ready(served) == ["first"]


@pytest.mark.parametrize("what", ["loads", "unloads"])
def test_a_model_that_loads_itself_is_told(served, what):
    add(served, "self", what, "self")
    with pytest.raises(InvalidArgumentError, match="model 'self' can't be loaded or unloaded from here"):
        load(served, "self")


def test_models_that_load_one_another_are_told(served):
    add(served, "x", other="y")
    add(served, "y", other="x")
    with pytest.raises(InvalidArgumentError, match="model 'x' can't be loaded or unloaded from here"):
        load(served, "x")
    assert ready(served) == []


def test_a_step_that_loads_its_own_ensemble_is_told(served):
    add(served, "step", other="ens")
    add_ensemble(served.repository, "ens", "step", "plain")
    with pytest.raises(InvalidArgumentError, match=r"step 1 needs model 'step'.*model 'ens' can't be loaded"):
        load(served, "ens")
    with pytest.raises(InvalidArgumentError, match=r"model '(ens|step)' can't be loaded or unloaded from here"):
        load(served, "step")


def test_once_it_serves_a_model_may_load_and_unload_itself(served):
    load(served, "plain")
    models = served.calls["plain"]
    before = served.version("plain")
    served.repository.write("plain/1/model", "changed")
    models.load("plain", NO_OVERRIDES)
    assert served.version("plain") is not before
    models.unload("plain", False)
    served.settle()
    assert ready(served) == []
