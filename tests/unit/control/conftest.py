import pytest

from charonia.control.handlers import Handlers
from charonia.repository.control import RepositoryControl
from charonia.testing.models import example_directory, example_models


class FakeServer:
    id = "triton"
    live = True
    ready = True


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
