"""What is counted: by every door alike, before the answer is sent, in the statistics and in the metrics."""

import re

import httpx
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

from charonia.api import Server
from tests.every_door.doors import DOORS, RefusedError, open_door
from tests.every_door.served import row, value_of
from tests.models import onnx_models
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_config, write_python_model

DURATIONS = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss")
FAILS = """
    class TritonPythonModel:
        def execute(self, requests):
            raise ValueError("no luck today")
"""


@pytest.fixture(params=DOORS)
def fresh(request, tmp_path):
    """A server that has counted nothing yet, and one door to it."""
    onnx_models.save(onnx_models.add_sub(), tmp_path, "add_sub")
    write_config(tmp_path, "add_sub", "max_batch_size: 4")
    write_python_model(
        tmp_path,
        "fails",
        """
        max_batch_size: 4
        input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
        output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
        parameters { key: "execution" value { string_value: "inline" } }
        """,
        FAILS,
    )
    with Server(tmp_path, http_port=0, grpc_port=0, metrics_port=0) as server:
        door = open_door(request.param, server)
        yield server, door
        door.close()


def pair(rows=1):
    return {name: np.ones((rows, 16), np.float32) for name in ("INPUT0", "INPUT1")}


def metrics(server, name, **labels):
    """The value of one sample."""
    text = httpx.get(f"http://127.0.0.1:{server.ports['metrics']}/metrics", timeout=PATIENCE_S, verify=False).text
    for line in text.splitlines():
        match = re.fullmatch(rf"{name}\{{(.*)\}} (\S+)", line)
        if match and all(f'{key}="{value}"' in match[1] for key, value in labels.items()):
            return float(match[2])
    raise AssertionError(f"no sample {name} {labels}")


def test_counts_move_before_the_answer_is_there(fresh):
    server, door = fresh
    for request, rows in enumerate((1, 3, 2, 3), 1):
        door.infer("add_sub", pair(rows))
        counted = server.model("add_sub").statistics()
        assert counted.execution_count == request
        assert counted.inference["success"].count == request
    assert counted.inference_count == 9
    assert counted.last_inference_ms > 0
    assert {batch.batch_size: batch.compute_infer.count for batch in counted.batches} == {1: 1, 2: 1, 3: 2}
    for name in ("queue", "compute_input", "compute_infer", "compute_output"):
        assert counted.inference[name].count == 4
    parts = sum(counted.inference[name].ns for name in ("queue", "compute_input", "compute_infer", "compute_output"))
    assert 0 < parts <= counted.inference["success"].ns
    assert counted.inference["fail"].count == 0
    labels = {"model": "add_sub", "version": "1"}
    assert metrics(server, "nv_inference_request_success", **labels) == 4
    assert metrics(server, "nv_inference_count", **labels) == 9
    assert metrics(server, "nv_inference_exec_count", **labels) == 4
    assert metrics(server, "nv_inference_pending_request_count", **labels) == 0
    for part in ("request", "queue", "compute_input", "compute_infer", "compute_output"):
        assert metrics(server, f"nv_inference_{part}_duration_us", **labels) >= 0
    assert metrics(server, "charonia_request_latency_seconds_count", model="add_sub", phase="total") == 4


def test_failures_of_a_model_are_counted_with_their_execution(fresh):
    server, door = fresh
    for _ in range(2):
        with pytest.raises(RefusedError):
            door.infer("fails", row(1))
    counted = server.model("fails").statistics()
    assert counted.inference["fail"].count == 2
    assert counted.inference["success"].count == 0
    assert counted.inference_count == 0
    assert counted.execution_count == 2
    assert metrics(server, "nv_inference_request_failure", model="fails", reason="BACKEND") == 2


def test_requests_that_never_reach_the_model_do_not_count_as_executions(fresh):
    server, door = fresh
    with pytest.raises(RefusedError):
        door.infer("add_sub", pair(5))
    counted = server.model("add_sub").statistics()
    assert (counted.execution_count, counted.inference_count) == (0, 0)


def test_http_grpc_and_in_process_show_the_same(fresh):
    server, door = fresh
    door.infer("add_sub", pair(2))
    record = server.model("add_sub").statistics()
    expected = {name: {"count": record.inference[name].count, "ns": record.inference[name].ns} for name in DURATIONS}
    with httpclient.InferenceServerClient(f"127.0.0.1:{server.ports['http']}") as client:
        (by_http,) = client.get_inference_statistics("add_sub")["model_stats"]
    with grpcclient.InferenceServerClient(f"127.0.0.1:{server.ports['grpc']}") as client:
        (by_grpc,) = client.get_inference_statistics("add_sub").model_stats
    assert (by_http["name"], by_http["version"]) == (by_grpc.name, by_grpc.version) == ("add_sub", "1")
    assert by_http["inference_count"] == by_grpc.inference_count == 2
    assert by_http["execution_count"] == by_grpc.execution_count == 1
    assert by_http["last_inference"] == by_grpc.last_inference == record.last_inference_ms
    assert by_http["inference_stats"] == expected
    shown = {name: getattr(by_grpc.inference_stats, name) for name in DURATIONS}
    assert {name: {"count": each.count, "ns": each.ns} for name, each in shown.items()} == expected
    assert [batch["batch_size"] for batch in by_http["batch_stats"]] == [2]
    assert [batch.batch_size for batch in by_grpc.batch_stats] == [2]


def test_refusals_of_the_queue_are_counted_by_reason(gated):
    served = gated(
        "max_batch_size: 1 dynamic_batching { default_queue_policy { max_queue_size: 2 allow_timeout_override: true } }"
    )
    served.occupy()
    late = served.send(1, timeout_us=1)
    assert late.exception(PATIENCE_S) is not None
    cancelled, kept, waiting = served.send(2), served.send(3), None
    assert cancelled.cancel()
    waiting = served.send(4)
    assert served.send(5).exception(PATIENCE_S) is not None
    model = served.model.loaded
    assert model.pending_count == 2
    assert model.statistics.failures["REJECTED"] == 2
    assert model.statistics.failures["CANCELED"] == 1
    served.gate.open_for_good()
    assert (value_of(kept), value_of(waiting)) == (3, 4)
    assert served.model.statistics().inference["fail"].count == 3
    assert model.pending_count == 0
