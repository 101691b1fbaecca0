import pytest

from charonia.control.handlers import Handlers
from charonia.testing.models import example_directory, example_models


class FakeServer:
    id = "triton"
    live = True
    ready = True


class FakeControl:
    """Keeps what it is asked for."""

    def __init__(self):
        self.calls = []

    def load(self, name, overrides):
        self.calls.append(("load", name, overrides))

    def unload(self, name, dependents):
        self.calls.append(("unload", name, dependents))


@pytest.fixture
def control():
    return FakeControl()


@pytest.fixture
def server():
    return FakeServer()


@pytest.fixture
def models():
    return example_models()


@pytest.fixture
def handlers(server, models, control):
    directory = example_directory(models)
    return Handlers.over(server, lambda: directory, control)
