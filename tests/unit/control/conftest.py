import pytest

from charonia.control.handlers import Handlers
from charonia.control.shared_memory import SharedMemory
from charonia.core.log import SilentLog
from charonia.memory.regions import Regions
from charonia.testing.control import FakeControl
from charonia.testing.log import kept_log
from charonia.testing.models import example_directory, example_models


class FakeServer:
    id = "triton"
    live = True
    ready = True
    strict = True


@pytest.fixture
def control():
    return FakeControl()


@pytest.fixture
def server_log():
    return kept_log()[0]


@pytest.fixture
def server():
    return FakeServer()


@pytest.fixture
def models():
    return example_models()


@pytest.fixture
def regions():
    return Regions(SilentLog(), allowed=True)


@pytest.fixture
def handlers(server, models, control, server_log, regions):
    directory = example_directory(models)
    return Handlers.over(server, lambda: directory, control, server_log, SharedMemory(regions))
