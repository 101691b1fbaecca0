"""The state that the live page shows."""

from charonia.control.live import BOUNDS_MS, Live
from charonia.core.errors import FailureReason
from charonia.core.request import Reply
from charonia.observe.stamps import Stamps
from charonia.observe.statistics import ModelStatistics
from charonia.testing.clock import ManualClock
from charonia.testing.models import FakeInstance, example_directory
from charonia.testing.requests import KeptReplies, make_request

START_NS = 10_000_000_000


def executed(statistics, rows, wait_ns, compute_ns):
    """Count the execution of one batch, of requests with so many rows each."""
    requests = [make_request(KeptReplies(), rows=each, arrival_ns=START_NS - wait_ns) for each in rows]
    for request in requests:
        request.queue_start_ns = request.arrival_ns
    stamps = Stamps(START_NS, START_NS, START_NS + compute_ns, START_NS + compute_ns)
    statistics.record_batch(stamps, sum(rows), [Reply(request) for request in requests])


def snapshot(server, models, clock=None):
    return Live(server, lambda: example_directory(models), clock or ManualClock()).read()


def line(shot, name, version=""):
    return next(model for model in shot.models if (model.name, model.version) == (name, version))


def test_each_line_of_the_index_is_there_with_its_reason(server, models):
    shot = snapshot(server, models)
    assert [(model.name, model.version, model.state) for model in shot.models] == [
        ("addsub", "1", "READY"),
        ("addsub", "3", "READY"),
        ("bad", "1", "UNAVAILABLE"),
        ("id", "1", "READY"),
        ("late", "1", "LOADING"),
        ("shelf", "", ""),
    ]
    assert line(shot, "bad", "1").reason == "no such file"
    assert line(shot, "bad", "1").counts is None
    assert line(shot, "id", "1").platform == "python"
    assert line(shot, "id", "1").max_batch_size == 4


def test_a_model_without_a_living_instance_is_not_ready(server, models):
    models[0].live_instances = 0
    models[0].instances = [FakeInstance("id_0_0", "cpu", True, False)]
    of_id = line(snapshot(server, models), "id", "1")
    assert not of_id.ready
    assert (of_id.instances[0].device, of_id.instances[0].busy, of_id.instances[0].alive) == ("cpu", True, False)


def test_counts_are_of_instances_on_gpus_too(server, models):
    executed(models[0].statistics, rows=(1, 2), wait_ns=1_000_000, compute_ns=2_000_000)
    models[0].gpu_statistics = {"GPU-1": ModelStatistics()}
    executed(models[0].gpu_statistics["GPU-1"], rows=(4,), wait_ns=0, compute_ns=2_000_000)
    counts = line(snapshot(server, models), "id", "1").counts
    assert counts.success == 3
    assert counts.executions == 2
    assert counts.batches == {3: 1, 4: 1}
    assert counts.busy_ms == 4.0
    assert counts.queue_ms == 2.0
    assert sum(counts.latency) == 3
    assert len(counts.latency) == len(BOUNDS_MS) + 1
    assert counts.latency[BOUNDS_MS.index(3.0)] == 2


def test_failures_have_their_reasons(server, models):
    models[0].statistics.failures[FailureReason.REJECTED] += 5
    models[0].pending_count = 7
    counts = line(snapshot(server, models), "id", "1").counts
    assert counts.failed[FailureReason.REJECTED] == 5
    assert counts.pending == 7


def test_time_counts_from_the_start(server, models):
    clock = ManualClock()
    live = Live(server, lambda: example_directory(models), clock)
    first = live.read()
    clock.advance(ms=2500)
    later = live.read()
    assert later.uptime_s == 2.5
    assert later.at_ms - first.at_ms == 2500
