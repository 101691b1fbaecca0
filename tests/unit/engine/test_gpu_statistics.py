"""Instances on GPUs count by GPU; the statistics of the protocol add them up."""

from charonia.backends.base import InstanceSpec
from charonia.config.schema import ModelConfig
from charonia.control.statistics import Statistics
from charonia.core.errors import BackendError, QueueFullError
from charonia.engine.model import ModelVersion
from charonia.engine.services import ModelServices
from charonia.observe.metrics_config import MetricsOptions
from charonia.scheduling.bell import ConditionBell
from charonia.scheduling.timer import Timer
from charonia.testing.clock import ManualClock
from charonia.testing.requests import KeptReplies, make_request
from tests.unit.engine.one_model import OneModel

DEVICES = ("cpu", "gpu:0", "gpu:0", "gpu:1")
UUIDS = {"gpu:0": "GPU-a", "gpu:1": "GPU-b"}


class Instance:
    healthy = True

    def start(self, batch):
        for request in batch.requests:
            if request.id == "fail":
                batch.fail(request, BackendError("no luck"))
            else:
                batch.respond(request, [])

    def close(self): ...


class Backend:
    def create_instance(self, spec):
        return Instance()

    def close(self): ...


def version():
    config = ModelConfig(name="m", max_batch_size=8)
    clock = ManualClock()
    services = ModelServices(
        clock,
        Timer(clock),
        None,
        lambda name, error: None,
        metrics=MetricsOptions(histogram_latencies=True),
        gpu_uuids=UUIDS,
    )
    specs = [InstanceSpec(f"m_{at}", "KIND_GPU", device, 1) for at, device in enumerate(DEVICES)]
    return ModelVersion("m", 3, config, {}, Backend(), specs, ConditionBell(), 0, services)


def test_each_gpu_counts_what_its_instances_executed():
    model = version()
    for runner, rows in zip(model.instances, (1, 2, 3, 4), strict=True):
        runner._drive([make_request(KeptReplies(), rows=rows)])
    model.instances[3]._drive([make_request(KeptReplies(), id="fail")])
    model.statistics.record_failure(make_request(KeptReplies()), QueueFullError.failure_reason, 5)
    counted = {"": model.statistics, **model.gpu_statistics}
    assert {uuid: each.inference_count for uuid, each in counted.items()} == {"": 1, "GPU-a": 5, "GPU-b": 4}
    assert {uuid: each.execution_count for uuid, each in counted.items()} == {"": 1, "GPU-a": 2, "GPU-b": 2}
    assert all(each.first_responses is not None for each in counted.values())
    assert model.gpu_statistics["GPU-b"].failures["BACKEND"] == 1
    assert model.statistics.failures["REJECTED"] == 1

    (record,) = Statistics(lambda: OneModel(model)).read("m", 3)
    assert (record.inference_count, record.execution_count) == (10, 5)
    assert (record.inference["success"].count, record.inference["fail"].count) == (4, 2)
    assert {batch.batch_size: batch.compute_infer.count for batch in record.batches} == {1: 2, 2: 1, 3: 1, 4: 1}
    assert record.last_inference_ms == max(each.last_inference_ms for each in counted.values())
