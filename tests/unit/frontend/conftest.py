import pytest

from charonia.control.handlers import Handlers
from charonia.core.log import SilentLog
from charonia.testing.models import example_directory, example_models


class FakeServer:
    id = "triton"
    live = True
    ready = True


class RecordingLog(SilentLog):
    def __init__(self):
        self.errors = []

    def error(self, message):
        self.errors.append(message)


class FakeControl:
    """Keeps what it is asked for; `error` is raised instead, `before` is called first."""

    def __init__(self):
        self.calls = []
        self.error = None
        self.before = lambda: None

    def load(self, name, overrides):
        self._note("load", name, overrides)

    def unload(self, name, dependents):
        self._note("unload", name, dependents)

    def _note(self, *call):
        self.before()
        if self.error is not None:
            raise self.error
        self.calls.append(call)


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


@pytest.fixture
def log():
    return RecordingLog()
