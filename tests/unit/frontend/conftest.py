import pytest

from charonia.control.handlers import Handlers
from charonia.core.log import SilentLog
from charonia.repository.control import RepositoryControl
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


@pytest.fixture
def server():
    return FakeServer()


@pytest.fixture
def models():
    return example_models()


@pytest.fixture
def handlers(server, models):
    directory = example_directory(models)
    return Handlers.over(server, lambda: directory, RepositoryControl("none"))


@pytest.fixture
def log():
    return RecordingLog()
