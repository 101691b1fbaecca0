"""The calls of `model-analyzer`, in its order, by its client: variants of a model by overrides of its config."""

import json
from urllib.request import urlopen

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
from google.protobuf import json_format
from prometheus_client.parser import text_string_to_metric_families
from tritonclient.grpc import model_config_pb2
from tritonclient.utils import InferenceServerException

from charonia.api import Server
from tests.models import onnx_models
from tests.models.gated import PATIENCE_S

MODEL = "add_sub"
ROWS = onnx_models.sample("FP32", (1, 16), 1)


@pytest.fixture
def server(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # as it starts a local server where there is no GPU
    onnx_models.save(onnx_models.add_sub(), tmp_path, MODEL)
    ports = {"http_port": 0, "grpc_port": 0, "metrics_port": 0}
    with Server(tmp_path, model_control_mode="explicit", **ports) as running:
        yield running


@pytest.fixture
def client(server):
    with grpcclient.InferenceServerClient(f"localhost:{server.ports['grpc']}") as made:
        yield made


def variant(config, **changes):
    """The config as the tool sends it: by way of the client's own message, with that one's names."""
    message = json_format.ParseDict(config, model_config_pb2.ModelConfig())
    return json.dumps(json_format.MessageToDict(message) | changes)


def rows_a_second_or_so(client):
    """What perf_analyzer asks before and after it measures."""
    client.get_server_metadata()
    client.get_model_metadata(MODEL)
    client.get_model_config(MODEL)
    before = client.get_inference_statistics(MODEL).model_stats[0]
    inputs = [grpcclient.InferInput(name, [1, 16], "FP32").set_data_from_numpy(ROWS) for name in ("INPUT0", "INPUT1")]
    for _ in range(5):
        np.testing.assert_array_equal(client.infer(MODEL, inputs).as_numpy("OUTPUT0"), ROWS + ROWS)
    after = client.get_inference_statistics(MODEL).model_stats[0]
    return after.inference_count - before.inference_count


def test_a_default_config_and_variants_of_it(client):
    assert client.is_server_ready()
    client.load_model(MODEL)
    assert client.is_model_ready(MODEL)
    config = client.get_model_config(MODEL, as_json=True)["config"]
    client.unload_model(MODEL)
    assert config["max_batch_size"] == 4
    for size, count in ((1, 1), (2, 1), (2, 2)):
        groups = [{"count": count, "kind": "KIND_CPU"}]
        client.load_model(MODEL, config=variant(config, maxBatchSize=size, instanceGroup=groups, dynamicBatching={}))
        assert client.is_model_ready(MODEL)
        now = client.get_model_config(MODEL).config
        assert (now.max_batch_size, now.instance_group[0].count, now.HasField("dynamic_batching")) == (
            size,
            count,
            True,
        )
        assert rows_a_second_or_so(client) == 5
    client.load_model(MODEL)  # says nothing of a config, so the last one stays
    assert client.get_model_config(MODEL).config.max_batch_size == 2
    client.unload_model(MODEL)
    client.load_model(MODEL)
    assert client.get_model_config(MODEL, as_json=True)["config"] == config


def test_a_variant_that_can_not_be_loaded_says_why_and_leaves_the_last_one(client):
    client.load_model(MODEL)
    config = client.get_model_config(MODEL, as_json=True)["config"]
    with pytest.raises(InferenceServerException) as refused:
        client.load_model(MODEL, config=variant(config, maxBatchSize=-1))
    assert "max_batch_size" in refused.value.message()
    assert "polling is enabled" not in refused.value.message()
    assert rows_a_second_or_so(client) == 5


def test_metrics_are_ascii_and_parse(server, client):
    client.load_model(MODEL)
    rows_a_second_or_so(client)
    with urlopen(f"http://localhost:{server.ports['metrics']}/metrics", timeout=PATIENCE_S) as answer:
        text = str(answer.read(), encoding="ascii")
    families = {family.name: family for family in text_string_to_metric_families(text)}
    assert "nv_gpu_utilization" not in families or not families["nv_gpu_utilization"].samples
    (count,) = families["nv_inference_count"].samples
    assert (count.labels, count.value) == ({"model": MODEL, "version": "1"}, 5)
