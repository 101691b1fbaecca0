"""The metrics page: what each request leaves on it, by whatever door it came; and Prometheus can read all of it."""

import math

import httpx
import numpy as np
import pytest

from charonia.api import Server
from tests.every_door.doors import DOORS, RefusedError, open_door
from tests.every_door.scraped import failures, page, samples, scrape, value
from tests.every_door.served import ask, row, value_of
from tests.every_door.test_cancellation import WAYS
from tests.every_door.watched import WatchedQueue
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_config, write_python_model

BATCHING = "max_batch_size: 1 dynamic_batching { }"
LIMITED = """
    max_batch_size: 1
    dynamic_batching { default_queue_policy { max_queue_size: 1 allow_timeout_override: true } }
"""
IDENTITY = """
    backend: "identity"
    max_batch_size: 4
    input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 1 ] } ]
    output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""
ERRS = """
    import triton_python_backend_utils as pb_utils

    CODES = [None, pb_utils.TritonError.CANCELLED, pb_utils.TritonError.INVALID_ARG, pb_utils.TritonError.UNAVAILABLE]

    class TritonPythonModel:
        def execute(self, requests):
            (request,) = requests
            code = CODES[int(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy().ravel()[0])]
            if code is None:
                raise ValueError("no luck today")
            return [pb_utils.InferenceResponse(error=pb_utils.TritonError("no luck", code))]
"""
EVERYTHING = {"summary_latencies": "true", "histogram_latencies": "true", "summary_quantiles": "0.5:0.05,0.99:0.001"}
SUMMARIES = ("request", "queue", "compute_input", "compute_infer", "compute_output")


@pytest.mark.parametrize("name", DOORS)
def test_refusals_of_the_queue_are_rejected(gated, name):
    served = gated(LIMITED)
    served.occupy()
    assert failures(served.server) == {}
    with pytest.raises(RefusedError, match="Request timeout expired"):
        ask(name, served.server, "m", row(1), timeout_us=1000)
    assert failures(served.server) == {"REJECTED": 1}
    served.send(2)
    with pytest.raises(RefusedError, match="Exceeds maximum queue size"):
        ask(name, served.server, "m", row(3))
    assert failures(served.server) == {"REJECTED": 2}


@pytest.mark.parametrize("way", WAYS)
def test_who_leaves_the_queue_is_canceled(gated, way):
    served = gated(BATCHING)
    watched = WatchedQueue(served.model)
    served.occupy()
    watched.wait_queued()
    way(served, watched)
    watched.wait_refused()
    assert failures(served.server) == {"CANCELED": 1}


@pytest.mark.parametrize("name", DOORS)
def test_who_waits_for_a_model_that_ends_is_another_failure(gated, clients, name):
    served = gated(BATCHING)
    watched = WatchedQueue(served.model)
    served.occupy()
    watched.wait_queued()
    waiting = clients.submit(ask, name, served.server, "m", row(1))
    watched.wait_queued()
    served.model.loaded.scheduler.stop()
    with pytest.raises(RefusedError, match="unloaded"):
        waiting.result(PATIENCE_S)
    assert failures(served.server) == {"OTHER": 1}


@pytest.mark.parametrize("form", ["inline", "isolated"])
@pytest.mark.parametrize("name", DOORS)
def test_whatever_a_model_fails_with_is_a_failure_of_the_backend(tmp_path, name, form):
    config = f"""
        max_batch_size: 4
        input [ {{ name: "IN" data_type: TYPE_FP32 dims: [ 1 ] }} ]
        output [ {{ name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }} ]
        parameters {{ key: "execution" value {{ string_value: "{form}" }} }}
    """
    write_python_model(tmp_path, "m", config, ERRS)
    with Server(tmp_path, http_port=0, grpc_port=0, metrics_port=0) as server:
        door = open_door(name, server)
        for code in range(4):
            with pytest.raises(RefusedError, match="no luck"):
                door.infer("m", row(code))
        door.close()
        assert failures(server) == {"BACKEND": 4}
        assert value(server, "nv_inference_exec_count", model="m") == 4
        assert value(server, "nv_inference_count", model="m") == 0


@pytest.mark.parametrize("name", DOORS)
def test_a_wrong_request_is_counted_nowhere(gated, name):
    served = gated(BATCHING)
    with pytest.raises(RefusedError):
        ask(name, served.server, "m", {"IN": np.zeros((2, 1), np.float32)})
    assert failures(served.server) == {}
    counted = served.model.statistics()
    assert {duration.count for duration in counted.inference.values()} == {0}
    assert counted.execution_count == 0


@pytest.mark.parametrize("name", DOORS)
def test_pending_requests_are_those_that_wait(gated, clients, name):
    served = gated(BATCHING)
    watched = WatchedQueue(served.model)
    pending = [value(served.server, "nv_inference_pending_request_count", model="m")]
    asked = [served.send(0)]
    watched.wait_queued()
    served.gate.next_entered()
    for number in (1, 2, 3):
        pending.append(value(served.server, "nv_inference_pending_request_count", model="m"))
        asked.append(clients.submit(ask, name, served.server, "m", row(number)))
        watched.wait_queued()
    pending.append(value(served.server, "nv_inference_pending_request_count", model="m"))
    assert pending == [0, 0, 1, 2, 3]
    served.gate.open()
    served.gate.next_entered()  # one of them executes now
    assert value(served.server, "nv_inference_pending_request_count", model="m") == 2
    served.gate.open_for_good()
    for each in asked:
        each.result(PATIENCE_S)
    assert value(served.server, "nv_inference_pending_request_count", model="m") == 0


@pytest.mark.parametrize("name", DOORS)
def test_summaries_and_histograms_count_what_the_counters_count(gated, name):
    buckets = """
        model_metrics { metric_control {
          metric_identifier { family: "nv_inference_first_response_histogram_ms" }
          histogram_options { buckets: [ -1, 0.0, 2.5, 3600000 ] } } }
    """
    served = gated(f"max_batch_size: 4 {buckets}", metrics_config=EVERYTHING)
    server = served.server
    served.gate.open_for_good()
    for part in SUMMARIES:
        shown = samples(server, f"nv_inference_{part}_summary_us", model="m", version="1")
        assert {dict(labels)["quantile"] for labels in shown} == {"0.5", "0.99"}
        assert all(map(math.isnan, shown.values()))
    for rows in (1, 2, 3):
        ask(name, server, "m", {"IN": np.full((rows, 1), rows, np.float32)})
    for part in SUMMARIES:
        assert value(server, f"nv_inference_{part}_summary_us_count", model="m") == 3
        total = value(server, f"nv_inference_{part}_summary_us_sum", model="m")
        counter = value(server, f"nv_inference_{part}_duration_us", model="m")
        assert total == pytest.approx(counter, abs=3)  # each request is rounded down to microseconds
        shown = samples(server, f"nv_inference_{part}_summary_us", model="m", version="1")
        assert 0 <= shown[("quantile", "0.5"),] <= shown[("quantile", "0.99"),] <= 1.01 * total
    shown = samples(server, "nv_inference_first_response_histogram_ms_bucket", model="m", version="1")
    assert [dict(labels)["le"] for labels in shown] == ["-1", "0", "2.5", "3600000", "+Inf"]
    assert [shown[("le", bound),] for bound in ("-1", "0", "3600000", "+Inf")] == [0, 0, 3, 3]
    assert value(server, "nv_inference_first_response_histogram_ms_count", model="m") == 3


def test_counters_of_latencies_can_be_left_out(gated):
    served = gated(BATCHING, metrics_config={"counter_latencies": "false"})
    served.gate.open_for_good()
    value_of(served.send(1))
    text = page(served.server)
    assert "_duration_us" not in text
    assert "summary" not in text
    assert "first_response" not in text
    assert value(served.server, "nv_inference_count", model="m") == 1


def test_metrics_of_a_model_go_and_come_with_it(tmp_path):
    for name in ("m", "other"):
        (write_config(tmp_path, name, IDENTITY) / "1").mkdir()
    explicit = {"model_control_mode": "explicit", "load_model": ["*"]}
    with Server(tmp_path, http_port=0, metrics_port=0, metrics_config=EVERYTHING, **explicit) as server:
        url = f"http://127.0.0.1:{server.ports['http']}/v2/repository/models/m"
        for _ in range(3):
            server.model("m").infer(INPUT0=[[1.0]])
            assert value(server, "nv_inference_count", model="m") == 1
            assert httpx.post(f"{url}/unload", timeout=PATIENCE_S).status_code == 200
            assert 'model="m"' not in page(server)
            assert 'model="other"' in page(server)
            assert httpx.post(f"{url}/load", timeout=PATIENCE_S).status_code == 200
            assert value(server, "nv_inference_count", model="m") == 0


HOSTILE = ['q"uote', "back\\slash", "line\nbreak", 'a"} 1\nup{evil="yes', "tab\tand\rreturn", "größe 😀", "{}"]


def test_names_can_not_write_into_the_page(tmp_path):
    for name in HOSTILE:
        write_config(tmp_path, name, IDENTITY)
        (tmp_path / name / "1").mkdir()
    tags = "".join(f'metric_tags {{ key: "{key}" value: "x\\"}} 1\\nup 1\\n" }}' for key in ("a b", "le", "__name__"))
    write_config(tmp_path, "tagged", IDENTITY + tags)
    (tmp_path / "tagged" / "1").mkdir()
    with Server(tmp_path, http_port=0, grpc_port=0, metrics_port=0, metrics_config=EVERYTHING) as server:
        found = scrape(server)
    assert {sample.labels["model"] for sample in found["nv_inference_count"].samples} == {*HOSTILE, "tagged"}
    assert "up" not in found
    (tagged,) = [sample for sample in found["nv_inference_count"].samples if sample.labels["model"] == "tagged"]
    assert tagged.labels == {
        "model": "tagged",
        "version": "1",
        "_a_b": 'x"} 1\nup 1\n',
        "_le": 'x"} 1\nup 1\n',
        "_name__": 'x"} 1\nup 1\n',
    }


def test_prometheus_reads_the_whole_page(gated):
    served = gated(BATCHING, metrics_config=EVERYTHING)
    served.gate.open_for_good()
    value_of(served.send(1))
    custom = served.server._parts.metrics.custom.family("mine", 'odd \\ "text"\nof two lines', "gauge")
    custom.metric({"odd": 'a"b\\c\nd', "half": "\ud800"}).set(float("-inf"))
    text = page(served.server)
    found = scrape(served.server)
    declared = [line.split()[2:] for line in text.splitlines() if line.startswith("# TYPE")]
    assert sorted(found) == sorted(name for name, _ in declared)
    assert {kind for _, kind in declared} == {"counter", "gauge", "summary", "histogram"}
    assert {name: family.type for name, family in found.items()} == dict(declared)
    assert all(family.documentation for family in found.values())
    lines = [line for line in text.split("\n") if line and not line.startswith("#")]
    assert sum(len(family.samples) for family in found.values()) == len(lines)
    (sample,) = found["mine"].samples
    assert sample.labels == {"odd": 'a"b\\c\nd', "half": "?"}
    assert sample.value == float("-inf")
