"""One server for each test module, over the module's own repository, and each door to it."""

import pytest

from charonia.api import Server
from tests.every_door.doors import DOORS, open_door


@pytest.fixture(scope="module")
def repository(tmp_path_factory, request):
    """The folder that the module's `lay_out` fills."""
    folder = tmp_path_factory.mktemp("repository")
    request.module.lay_out(folder)
    return folder


@pytest.fixture(scope="module")
def server(repository, request):
    options = getattr(request.module, "OPTIONS", {})
    with Server(repository, http_port=0, grpc_port=0, **options) as running:
        yield running


@pytest.fixture(params=DOORS)
def door(request, server):
    opened = open_door(request.param, server)
    yield opened
    opened.close()
