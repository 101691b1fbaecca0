"""TLS, Unix sockets and the load header of a whole server, with the real clients."""

import asyncio
import http.client
import json
import socket

import gevent.ssl
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.grpc.aio as grpc_aio
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from charonia.api import Server
from charonia.core.errors import InvalidArgumentError
from tests.certificates import Authority
from tests.models import onnx_models
from tests.models.repository import write_python_model

PATIENCE_S = 20.0


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    folder = tmp_path_factory.mktemp("secure")
    onnx_models.save(onnx_models.add_sub(), folder, "add_sub", 1)
    return folder


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


def secure(authority, *, mutual):
    identity = authority.server()
    return {
        f"{door}_{name}": value
        for door in ("http", "grpc")
        for name, value in {
            "port": 0,
            "use_ssl": True,
            "use_ssl_mutual": mutual,
            "server_cert": str(identity.certificate),
            "server_key": str(identity.key),
            "root_cert": str(authority.root) if mutual else "",
        }.items()
    }


def inputs(module):
    made = []
    for name in ("INPUT0", "INPUT1"):
        tensor = module.InferInput(name, [1, 16], "FP32")
        tensor.set_data_from_numpy(np.full((1, 16), 21, np.float32))
        made.append(tensor)
    return made


def answers(client, module):
    return client.infer("add_sub", inputs(module)).as_numpy("OUTPUT0")[0, 0] == 42


def http_client(server, authority, client=None):
    options = {"ca_certs": str(authority.root), "cert_reqs": gevent.ssl.CERT_REQUIRED}
    if client is not None:
        options |= {"certfile": str(client.certificate), "keyfile": str(client.key)}
    return httpclient.InferenceServerClient(f"localhost:{server.ports['http']}", ssl=True, ssl_options=options)


def grpc_client(server, authority, client=None, module=grpcclient):
    files = {}
    if client is not None:
        files = {"private_key": str(client.key), "certificate_chain": str(client.certificate)}
    url = f"localhost:{server.ports['grpc']}"
    return module.InferenceServerClient(url, ssl=True, root_certificates=str(authority.root), **files)


@pytest.mark.parametrize("mutual", [False, True])
def test_the_clients_of_both_protocols(models, authority, mutual):
    client = authority.client() if mutual else None
    with Server(models, **secure(authority, mutual=mutual)) as server:
        with http_client(server, authority, client) as rest:
            assert answers(rest, httpclient)
        with grpc_client(server, authority, client) as rpc:
            assert answers(rpc, grpcclient)

        async def ask():
            async with grpc_client(server, authority, client, grpc_aio) as rpc:
                return await rpc.infer("add_sub", inputs(grpc_aio))

        assert asyncio.run(ask()).as_numpy("OUTPUT0")[0, 0] == 42


def test_without_a_certificate_nobody_gets_in(models, authority):
    with Server(models, **secure(authority, mutual=True)) as server:
        with http_client(server, authority) as rest, pytest.raises((OSError, InferenceServerException)):
            answers(rest, httpclient)
        with grpc_client(server, authority) as rpc, pytest.raises(InferenceServerException, match="UNAVAILABLE"):
            answers(rpc, grpcclient)


def test_generate_and_metrics_under_tls(models, authority):
    options = {**secure(authority, mutual=False), "metrics_port": 0, "metrics_use_ssl": True}
    with Server(models, **options) as server:
        for door, path, words in (("http", "/v2", b'"name":"triton"'), ("metrics", "/metrics", b"nv_inference_count")):
            connection = http.client.HTTPSConnection(
                "localhost", server.ports[door], timeout=PATIENCE_S, context=authority.trusting()
            )
            connection.request("GET", path)
            assert words in connection.getresponse().read()
            connection.close()


def test_an_app_knows_that_it_is_asked_under_tls(models, authority):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": scope["scheme"].encode()})

    with Server(models, **secure(authority, mutual=False), mount={"/app": app}) as server:
        connection = http.client.HTTPSConnection(
            "localhost", server.ports["http"], timeout=PATIENCE_S, context=authority.trusting()
        )
        connection.request("GET", "/app")
        assert connection.getresponse().read() == b"https"
        connection.close()


def test_files_that_are_missing_are_named_before_anything_starts(models, authority, tmp_path):
    with pytest.raises(InvalidArgumentError, match="--grpc-use-ssl needs --grpc-server-cert"):
        Server(models, grpc_port=0, grpc_use_ssl=True)
    options = {**secure(authority, mutual=True), "http_root_cert": ""}
    with pytest.raises(InvalidArgumentError, match="--http-use-ssl-mutual needs --http-root-cert"):
        Server(models, **options)
    with pytest.raises(InvalidArgumentError, match="count only with --http-use-ssl"):
        Server(models, http_port=0, http_server_cert="cert.pem")
    options = {**secure(authority, mutual=False), "grpc_server_key": str(tmp_path / "key.pem")}
    with pytest.raises(InvalidArgumentError, match=r"TLS of GRPC: .*key.pem: No such file"):
        Server(models, **options).start()


def test_sockets_in_the_file_system(models, tmp_path):
    paths = {name: tmp_path / name for name in ("http", "grpc")}
    with Server(models, **{f"{name}_address": f"unix:{path}" for name, path in paths.items()}) as server:
        assert server.ports == {"http": None, "grpc": None, "metrics": None}
        with grpcclient.InferenceServerClient(f"unix:{paths['grpc']}") as rpc:
            assert answers(rpc, grpcclient)
        connection = http.client.HTTPConnection("localhost")
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(paths["http"]))
        connection.request("GET", "/v2/models/add_sub")
        assert json.loads(connection.getresponse().read())["name"] == "add_sub"
        connection.close()
    assert list(tmp_path.iterdir()) == []


def test_two_doors_need_two_sockets(models):
    with pytest.raises(InvalidArgumentError, match="--http-address and --grpc-address are both unix:/tmp/one"):
        Server(models, http_address="unix:/tmp/one", grpc_address="unix:/tmp/one")
    with pytest.raises(InvalidArgumentError, match="must name a socket"):
        Server(models, http_address="unix:")


LLM = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        family = pb_utils.MetricFamily(
            name="nv_trt_llm_kv_cache_block_metrics", description="blocks", kind=pb_utils.MetricFamily.GAUGE
        )
        labels = {"model": args["model_name"], "version": args["model_version"]}
        self.family = family
        self.metrics = {
            kind: family.Metric(labels={**labels, "kv_cache_block_type": kind})
            for kind in ("fraction", "tokens_per", "used", "max", "reused", "free")
        }
        for kind, value in {"max": 200, "tokens_per": 64, "used": 50}.items():
            self.metrics[kind].set(value)

    def execute(self, requests):
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUT", pb_utils.get_input_tensor_by_name(request, "IN").as_numpy())]
            )
            for request in requests
        ]
"""
ONE = " ".join(
    f'{kind} [ {{ name: "{name}" data_type: TYPE_FP32 dims: [ 1 ] }} ]'
    for kind, name in (("input", "IN"), ("output", "OUT"))
)
INFER = b'{"inputs":[{"name":"IN","datatype":"FP32","shape":[1],"data":[1]}]}'
TEXT = "TEXT named_metrics.kv_cache_utilization=0.250000, named_metrics.max_token_capacity=12800"
JSON = 'JSON {"named_metrics":{"kv_cache_utilization":0.25,"max_token_capacity":12800}}'


def test_the_load_is_told_to_who_asks(tmp_path):
    write_python_model(tmp_path, "llm", ONE, LLM)
    with Server(tmp_path, http_port=0) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.ports["http"], timeout=PATIENCE_S)

        def told(path, body, form):
            headers = {} if form is None else {"endpoint-load-metrics-format": form}
            connection.request("POST", f"/v2/models/llm/{path}", body=body, headers=headers)
            answer = connection.getresponse()
            answer.read()
            return answer.getheader("endpoint-load-metrics")

        for path, body in (("infer", INFER), ("generate", b'{"IN":1}'), ("generate_stream", b'{"IN":1}')):
            for form, expected in (("text", TEXT), ("json", JSON), ("xml", None), (None, None)):
                assert told(path, body, form) == expected
        assert told("nothing", b"", "text") is None
        connection.close()
