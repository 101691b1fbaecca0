"""One server for all of these tests, and the real client in its four forms with one face."""

import asyncio
import json

import pytest
import tritonclient.grpc as grpcclient
import tritonclient.grpc.aio as grpc_aio
import tritonclient.http as httpclient
import tritonclient.http.aio as http_aio

from charonia.api import Server
from tests.models import onnx_models
from tests.models.gated import Gate, write_gated
from tests.models.repository import write_config

FORMS = ("http", "grpc", "http-aio", "grpc-aio")
_MODULES = {"http": httpclient, "grpc": grpcclient, "http-aio": http_aio, "grpc-aio": grpc_aio}


@pytest.fixture(scope="session")
def gate(tmp_path_factory):
    made = Gate(tmp_path_factory.mktemp("gates") / "gate")
    yield made
    made.close()


@pytest.fixture(scope="session")
def server(tmp_path_factory, gate):
    folder = tmp_path_factory.mktemp("conformance")
    for version in (1, 2):
        onnx_models.save(onnx_models.add_sub(), folder, "add_sub", version)
    write_config(folder, "add_sub", "max_batch_size: 8 version_policy { all {} } dynamic_batching { }")
    onnx_models.save(onnx_models.identity("BYTES"), folder, "words")
    onnx_models.save(onnx_models.identity("FP32"), folder, "scores")
    write_config(
        folder,
        "scores",
        """
        max_batch_size: 8
        output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] label_filename: "labels.txt" } ]
        """,
    )
    (folder / "scores" / "labels.txt").write_text("cat\ndog\nsnail\n")
    write_gated(folder, "gated", gate, "max_batch_size: 1 dynamic_batching { }")
    options = {"http_port": 0, "grpc_port": 0, "metrics_port": 0, "id": "conforming", "exit_timeout_secs": 5}
    with Server(folder, **options) as running:
        yield running
        gate.open_for_good()


class Client:
    """One real client. `ask(method, …)` calls it, waits for coroutines, and gives gRPC's messages as JSON trees."""

    def __init__(self, form: str, server: Server) -> None:
        self.form = form
        self.module = _MODULES[form]
        self.is_grpc = form.startswith("grpc")
        self._loop = asyncio.new_event_loop() if form.endswith("aio") else None
        self.address = f"127.0.0.1:{server.ports['grpc' if self.is_grpc else 'http']}"
        self.raw = self._wait(self._open)

    async def _open_in_loop(self):
        return self.module.InferenceServerClient(self.address)

    def _open(self):
        return self._open_in_loop() if self._loop else self.module.InferenceServerClient(self.address)

    def _wait(self, make):
        return make() if self._loop is None else self._loop.run_until_complete(make())

    def call(self, method, *args, **options):
        return self._wait(lambda: getattr(self.raw, method)(*args, **options))

    def ask(self, method, *args, **options):
        """As `call`, with `as_json` where the client has it."""
        if self.is_grpc:
            options["as_json"] = True
        return self.call(method, *args, **options)

    def together(self, method, calls):
        """Several calls at once, for the asyncio forms."""

        async def gather():
            return await asyncio.gather(*[getattr(self.raw, method)(*args) for args in calls])

        return self._loop.run_until_complete(gather())

    def tensor(self, name, array, datatype, **options):
        return self.module.InferInput(name, list(array.shape), datatype).set_data_from_numpy(array, **options)

    def close(self):
        self.call("close")
        if self._loop is not None:
            self._loop.close()


@pytest.fixture(params=FORMS)
def client(request, server):
    opened = Client(request.param, server)
    yield opened
    opened.close()


@pytest.fixture
def http(server):
    with httpclient.InferenceServerClient(f"127.0.0.1:{server.ports['http']}", concurrency=4) as opened:
        yield opened


@pytest.fixture
def grpc(server):
    with grpcclient.InferenceServerClient(f"127.0.0.1:{server.ports['grpc']}") as opened:
        yield opened


def plain(tree):
    """JSON's own types, with gRPC's 64-bit numbers as numbers."""
    if isinstance(tree, dict):
        return {key: plain(value) for key, value in tree.items()}
    if isinstance(tree, list):
        return [plain(value) for value in tree]
    if isinstance(tree, str) and tree.lstrip("-").isdigit():
        return json.loads(tree)
    return tree
