import pytest

from charonia.core.log import SilentLog
from tests.unit.control.conftest import control, handlers, models, regions, server, server_log, tracer

__all__ = ["control", "handlers", "models", "regions", "server", "server_log", "tracer"]


class RecordingLog(SilentLog):
    def __init__(self):
        self.errors = []

    def error(self, message, below=""):
        self.errors.append(message)


@pytest.fixture
def log():
    return RecordingLog()
