"""What only a GPU can show: placement, execution on the device, metrics. `tests/gpu/run` runs them."""

import urllib.request

import numpy as np

from charonia.api import Server
from charonia.backends.gpus import visible_gpus
from tests.models import onnx_models
from tests.models.repository import write_config

ON_GPU = "max_batch_size: 8 dynamic_batching {{ }} instance_group [ {{ count: {count} kind: KIND_GPU {gpus} }} ]"


def serve(folder, count=1, gpus="", **options):
    onnx_models.save(onnx_models.mlp(), folder, "mlp")
    write_config(folder, "mlp", ON_GPU.format(count=count, gpus=gpus))
    return Server(folder, **options)


def rows(count):
    return np.random.default_rng(count).random((count, 256), np.float32)


def test_an_onnx_model_runs_on_the_gpu_and_answers_as_on_the_cpu(tmp_path):
    with serve(tmp_path / "gpu") as server:
        model = server.model("mlp")
        assert [runner.spec.device for runner in model.loaded.instances] == ["gpu:0"]
        on_gpu = model.infer(input=rows(8))["output"]
    onnx_models.save(onnx_models.mlp(), tmp_path / "cpu", "mlp")
    write_config(tmp_path / "cpu", "mlp", "max_batch_size: 8 instance_group [ { kind: KIND_CPU } ]")
    with Server(tmp_path / "cpu") as server:
        on_cpu = server.model("mlp").infer(input=rows(8))["output"]
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-3, atol=1e-3)


def test_a_group_without_gpus_has_instances_on_every_visible_one(tmp_path):
    with serve(tmp_path, count=2) as server:
        devices = [runner.spec.device for runner in server.model("mlp").loaded.instances]
    assert sorted(devices) == sorted(f"gpu:{gpu.index}" for gpu in visible_gpus() for _ in range(2))


def test_batched_equals_unbatched_on_the_gpu(tmp_path):
    with serve(tmp_path) as server:
        model = server.model("mlp")
        together = model.infer(input=rows(8))["output"]
        alone = np.concatenate([model.infer(input=row[np.newaxis])["output"] for row in rows(8)])
    np.testing.assert_allclose(together, alone, rtol=1e-3, atol=1e-3)


def test_the_gpu_is_in_the_metrics(tmp_path):
    with serve(tmp_path, metrics_port=0) as server:
        server.model("mlp").infer(input=rows(1))
        with urllib.request.urlopen(f"http://127.0.0.1:{server.ports['metrics']}/metrics") as answer:
            text = answer.read().decode()
    assert f'nv_inference_count{{gpu_uuid="{visible_gpus()[0].uuid}",model="mlp",version="1"}} 1' in text
    for family in ("nv_gpu_utilization", "nv_gpu_memory_total_bytes", "nv_gpu_memory_used_bytes", "nv_gpu_power_usage"):
        assert f"{family}{{gpu_uuid=" in text
