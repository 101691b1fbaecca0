"""One server for each test module, over the module's own repository, and each door to it."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from charonia.api import Server
from tests.every_door.bytes_doors import BYTES_DOORS
from tests.every_door.doors import DOORS, open_door
from tests.every_door.served import Gated


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


@pytest.fixture(scope="module")
def doors(server):
    """Every door for tensors as plain bytes."""
    opened = [door(server) for door in BYTES_DOORS]
    yield opened
    for door in opened:
        door.close()


@pytest.fixture
def clients():
    """Threads for clients that wait for their answers."""
    with ThreadPoolExecutor(8) as pool:
        yield pool


@pytest.fixture
def gated(tmp_path, clients):  # closed before the clients, so that none of them waits for ever
    made = []

    def make(config, *, doors=(), dims="-1", form="inline", **options):
        made.append(Gated(tmp_path, config, doors, dims, form, options))
        return made[-1]

    yield make
    for each in made:
        each.close()
