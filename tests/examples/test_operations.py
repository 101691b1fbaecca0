"""W9: operating a server: the probes of Kubernetes, models that come and go by request, new versions under poll."""

import http.client
import shutil
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import grpc
import numpy as np
import pytest
import tritonclient.http as httpclient
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tritonclient.utils import InferenceServerException

from tests.models import onnx_models
from tests.models.gated import PATIENCE_S
from tests.system.conftest import Repository, infer_body

# As the kubelet asks.
_PROBE = {"User-Agent": "kube-probe/1.31", "Accept": "*/*", "Connection": "close"}
_EXPLICIT = "--model-control-mode=explicit"


@pytest.fixture
def shop(repository):
    return Repository(repository)


def probe(server, path):
    connection = http.client.HTTPConnection("127.0.0.1", server.ports["http"], timeout=PATIENCE_S)
    try:
        connection.request("GET", path, headers=_PROBE)
        return connection.getresponse().status
    finally:
        connection.close()


def grpc_probe(server, service=""):
    with grpc.insecure_channel(f"127.0.0.1:{server.ports['grpc']}") as channel:
        request = health_pb2.HealthCheckRequest(service=service)
        return health_pb2_grpc.HealthStub(channel).Check(request, timeout=PATIENCE_S).status


def test_the_probes_of_kubernetes(shop, serve):
    shop.add("m")
    server = serve(shop.flag).started()
    assert probe(server, "/v2/health/live") == 200
    assert probe(server, "/v2/health/ready") == 200
    assert probe(server, "/v2/models/m/ready") == 200
    assert grpc_probe(server) == health_pb2.HealthCheckResponse.SERVING
    assert server.ask("GET", "/metrics", port="metrics").status == 200
    server.signal()
    assert server.exit_code() == 0


def test_a_model_that_fails_keeps_traffic_away_and_the_pod_alive(shop, serve):
    shop.add("m")
    shop.add_broken("bad")
    server = serve(shop.flag, "--exit-on-error=false").started()
    assert probe(server, "/v2/health/live") == 200
    assert probe(server, "/v2/health/ready") == 400
    assert grpc_probe(server) == health_pb2.HealthCheckResponse.NOT_SERVING
    assert probe(server, "/v2/models/m/ready") == 200


def test_models_come_and_go_by_request(repository, serve):
    onnx_models.save(onnx_models.add_sub(), repository, "sums")
    server = serve(f"--model-repository={repository}", _EXPLICIT).started()
    with httpclient.InferenceServerClient(f"localhost:{server.ports['http']}") as client:
        assert client.is_server_ready()
        assert client.get_model_repository_index() == [{"name": "sums"}]
        client.load_model("sums")
        assert client.is_model_ready("sums")
        inputs = [httpclient.InferInput(name, [1, 16], "FP32") for name in ("INPUT0", "INPUT1")]
        for tensor in inputs:
            tensor.set_data_from_numpy(np.ones((1, 16), np.float32))
        np.testing.assert_array_equal(client.infer("sums", inputs).as_numpy("OUTPUT0"), np.full((1, 16), 2))
        client.unload_model("sums")
        server.wait_for("successfully unloaded 'sums' version 1")
        (row,) = client.get_model_repository_index()
        assert (row["state"], row["reason"]) == ("UNAVAILABLE", "unloaded")
        with pytest.raises(InferenceServerException, match="no available versions"):
            client.infer("sums", inputs)


def test_a_new_version_takes_over_while_clients_ask(shop, serve):
    shop.add("m")
    server = serve(shop.flag, _EXPLICIT, "--load-model=m").started()
    stop = Event()

    def ask_until_told():
        answers = []
        while not stop.is_set():
            answers.append(server.ask("POST", "/v2/models/m/infer", infer_body(1.0)))
        return answers

    with ThreadPoolExecutor(4) as clients:
        asking = [clients.submit(ask_until_told) for _ in range(4)]
        try:
            shutil.copytree(shop.path / "m" / "1", shop.path / "m" / "2")
            assert server.ask("POST", "/v2/repository/models/m/load").status == 200
            assert server.ask("POST", "/v2/models/m/infer", infer_body(1.0)).json()["model_version"] == "2"
        finally:
            stop.set()
        answers = [answer for each in asking for answer in each.result(PATIENCE_S)]
    assert {answer.status for answer in answers} == {200}
    assert {answer.json()["model_version"] for answer in answers} <= {"1", "2"}


def test_under_poll_versions_follow_the_folder(shop, serve):
    shop.add("m")
    server = serve(shop.flag, "--model-control-mode=poll", "--repository-poll-secs=1").started()
    staged = shop.path.parent / "staged"
    shutil.copytree(shop.path / "m" / "1", staged)
    staged.rename(shop.path / "m" / "2")  # so that it is there as a whole at once
    server.wait_for("successfully loaded 'm'")
    assert server.ask("POST", "/v2/models/m/infer", infer_body(1.0)).json()["model_version"] == "2"
    shop.add_broken("bad")
    server.wait_for("bad")
    assert server.ask("POST", "/v2/models/m/infer", infer_body(1.0)).status == 200
    shutil.rmtree(shop.path / "bad")
    shop.add("another")
    server.wait_for("successfully loaded 'another'")
    refused = server.ask("POST", "/v2/repository/models/m/load")
    assert refused.status == 503
    assert "polling is enabled" in refused.json()["error"]
