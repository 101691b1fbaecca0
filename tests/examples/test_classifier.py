"""W1: an image classifier in a repository, as the guides lay it out, served by the command and asked by real tools."""

import queue
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as httpclient

from charonia.backends.gpus import visible_gpus
from tests.models import onnx_models
from tests.models.repository import write_config
from tests.system.conftest import Serving

CONFIG = """
    # An image classifier. Written for a TensorRT engine; here the same network as ONNX.
    name: "densenet_trt"
    platform: "onnxruntime_onnx"   # was: tensorrt_plan
    max_batch_size: 32
    input [
      {
        name: "input",             # commas between fields are legal,
        data_type: TYPE_FP32,
        dims: [ 3, 224, 224 ]
      }
    ]
    output [
      { name: "logits", data_type: TYPE_FP32, dims: [ 1000 ] }
    ]
    instance_group [ { count: 2, kind: %s } ]
    version_policy: {              # and so is a colon before a message
      latest { num_versions: 1 }
    }
"""


@pytest.fixture(scope="module")
def network():
    return onnx_models.conv_net().SerializeToString()


@pytest.fixture
def lay_out(repository, network):
    def write(kind, config=CONFIG):
        (repository / "densenet_trt" / "1").mkdir(parents=True)
        (repository / "densenet_trt" / "1" / "model.onnx").write_bytes(network)
        write_config(repository, "densenet_trt", config % kind)
        return f"--model-repository={repository}"

    return write


@pytest.mark.parametrize(
    ("kind", "flags"), [("KIND_CPU", ()), ("KIND_GPU, gpus: [ 0 ]", ("--no-gpu=cpu",))], ids=["cpu", "gpu-rule"]
)
def test_as_told(lay_out, serve, kind, flags):
    server = serve(lay_out(kind), *flags).started()
    assert server.ask("GET", "/v2/health/ready").status == 200
    config = server.ask("GET", "/v2/models/densenet_trt/config").json()
    assert (config["name"], config["platform"], config["max_batch_size"]) == ("densenet_trt", "onnxruntime_onnx", 32)
    (group,) = config["instance_group"]
    assert (group["count"], group["kind"]) == (2, kind.split(",")[0])
    assert config["version_policy"] == {"latest": {"num_versions": 1}}

    with httpclient.InferenceServerClient(f"localhost:{server.ports['http']}") as client:
        images = np.random.default_rng(0).random((8, 3, 224, 224), np.float32)
        tensor = httpclient.InferInput("input", images.shape, "FP32")
        tensor.set_data_from_numpy(images)
        logits = client.infer("densenet_trt", [tensor]).as_numpy("logits")
        assert logits.shape == (8, 1000)
        assert np.isfinite(logits).all()
        assert logits.argmax(axis=1).shape == (8,)
        (stats,) = client.get_inference_statistics("densenet_trt")["model_stats"]
    assert (stats["inference_count"], stats["execution_count"]) == (8, 1)
    if flags:
        assert "warning" in server.text.lower() or "W" in {line[:1] for line in server.log}
        assert "GPU" in server.text
    server.signal()
    assert server.exit_code() == 0


class Tritonserver(Serving):
    """The command under the name that start scripts have."""

    def __init__(self, *flags):
        ports = [f"--{name}-port=0" for name in ("http", "grpc", "metrics")]
        program = Path(sys.executable).parent / "tritonserver"
        self.process = subprocess.Popen(
            [program, *ports, *flags], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, bufsize=1
        )
        self.log, self.ports = [], {}
        self._lines = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()


def test_under_its_other_name(lay_out):
    server = Tritonserver(lay_out("KIND_CPU"))
    try:
        server.started()
        assert server.ask("GET", "/v2/health/ready").status == 200
        server.signal()
        assert server.exit_code() == 0
    finally:
        server.close()


@pytest.mark.skipif(bool(visible_gpus()), reason="this machine has a GPU, so the group is served by it")
def test_without_a_gpu_the_start_fails_and_names_the_flag(lay_out, serve):
    server = serve(lay_out("KIND_GPU, gpus: [ 0 ]"))
    assert server.exit_code() == 1
    assert "--no-gpu=cpu" in server.text
    assert "KIND_GPU" in server.text
    assert "densenet_trt" in server.text


@pytest.mark.parametrize("config", ['platform: "tensorrt_plan"', 'backend: "tensorrt"', None])
def test_a_real_engine_file_says_what_is_missing(repository, serve, config):
    (repository / "densenet_trt" / "1").mkdir(parents=True)
    (repository / "densenet_trt" / "1" / "model.plan").write_bytes(b"ptrt" + bytes(100))
    if config:
        write_config(repository, "densenet_trt", config)
    server = serve(f"--model-repository={repository}")
    assert server.exit_code() == 1
    shown = " ".join(server.text.split())
    for named in ("densenet_trt", "backend 'tensorrt'", "pip install tensorrt", "GPU type", "TensorRT version", "ONNX"):
        assert named in shown
