import pytest

from charonia.control.handlers import Handlers
from charonia.control.shared_memory import SharedMemory
from charonia.control.tracing import Tracing
from charonia.core.log import SilentLog
from charonia.memory.regions import Regions
from charonia.observe.traces.config import parse_trace_config
from charonia.observe.traces.tracer import Tracer
from charonia.testing.clock import ManualClock
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
def tracer():
    config = parse_trace_config(("triton,file=traces.json",))
    return Tracer(config, ManualClock(), SilentLog(), lambda name, error: None)


@pytest.fixture
def handlers(server, models, control, server_log, regions, tracer):
    directory = example_directory(models)
    tracing = Tracing(tracer, lambda: directory)
    return Handlers.over(server, lambda: directory, control, server_log, SharedMemory(regions), tracing, ManualClock())
