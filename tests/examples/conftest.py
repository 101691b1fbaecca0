"""Repositories and servers of the walk-throughs."""

from pathlib import Path

import pytest

from charonia.api import Server
from tests.system.conftest import Serving


@pytest.fixture
def repository(tmp_path) -> Path:
    folder = tmp_path / "models"
    folder.mkdir()
    return folder


@pytest.fixture
def embedded(repository):
    """Starts a server in this process over the test's repository, on free ports; stops it afterwards."""
    started = []

    def start(**options):
        started.append(Server(repository, http_port=0, grpc_port=0, **options).start())
        return started[-1]

    yield start
    for each in started:
        each.stop()


@pytest.fixture
def serve():
    """Starts `charonia serve` with the flags given, as a process of its own on free ports; ends it afterwards."""
    started = []

    def start(*flags, ports=True):
        started.append(Serving(*flags, ports=ports))
        return started[-1]

    yield start
    for each in started:
        each.close()
