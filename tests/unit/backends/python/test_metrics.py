"""Metrics of a model's own, in both forms."""

import gc
import os
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from charonia.observe.exposition import Exposition

X = {"X": np.zeros(1, np.float32)}

MODEL = """
class TritonPythonModel:
    def initialize(self, args):
        kind = pb_utils.MetricFamily
        self.families = [
            kind("seen", "Requests seen", kind.COUNTER),
            kind(name="level", description="Level", kind=kind.GAUGE),
            kind("sizes", "Sizes", kind.HISTOGRAM),
        ]
        self.counter = self.families[0].Metric(labels={"model": "m"})
        self.gauge = self.families[1].Metric()
        self.histogram = self.families[2].Metric(labels={"a": "b"}, buckets=[1, 10])

    def execute(self, requests):
        self.counter.increment(len(requests))
        self.gauge.set(5); self.gauge.increment(-2)
        self.histogram.observe(4)
        values = np.array([self.counter.value(), self.gauge.value()], np.float64)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", values)]) for _ in requests]
"""
FP64 = {"outputs": "Y:TYPE_FP64:2"}


def page(workshop):
    out = Exposition()
    workshop.metrics.write(out)
    return out.text() if hasattr(out, "text") else str(out)


def test_models_count_set_and_observe_and_read_their_values(serve, workshop):
    served = serve(MODEL, **FP64)
    assert served.run(X, X).outputs(1)["Y"].tolist() == [2, 3]
    assert served.call(**X)["Y"].tolist() == [3, 3]
    text = page(workshop)
    assert 'seen{model="m"} 3' in text
    assert "level 3" in text
    assert 'sizes_bucket{a="b",le="10"} 2' in text or 'sizes_bucket{a="b",le="10.0"} 2' in text


def test_metrics_go_with_their_model(serve, workshop):
    served = serve(MODEL, **FP64)
    served.call(**X)
    assert len(workshop.metrics._families) == 3
    served.unload()
    assert "seen" not in page(workshop)
    assert not workshop.metrics._families


def test_a_metric_that_is_dropped_disappears(serve, workshop):
    code = """
    class TritonPythonModel:
        def initialize(self, args):
            self.family = pb_utils.MetricFamily("brief", "b", pb_utils.MetricFamily.COUNTER)
            self.metric = self.family.Metric()
            self.metric.increment(1)
        def execute(self, requests):
            self.metric = None
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.zeros(1, np.float32))])]
    """
    served = serve(code)
    assert "brief 1" in page(workshop)
    served.call(**X)
    assert "brief" not in page(workshop)


def test_the_page_shows_what_a_running_execution_has_counted_and_dropped(serve, workshop, tmp_path):
    """The model says that it has counted, then that it has dropped, and waits for the test to look, by pipes."""
    for name in ("said", "go"):
        os.mkfifo(tmp_path / name)
    said, go = (os.open(tmp_path / name, os.O_RDWR) for name in ("said", "go"))
    code = f"""
    import os
    class TritonPythonModel:
        def initialize(self, args):
            self.family = pb_utils.MetricFamily("brief", "b", pb_utils.MetricFamily.COUNTER)
        def wait(self):
            os.write(os.open("{tmp_path}/said", os.O_WRONLY), b"x")
            os.read(os.open("{tmp_path}/go", os.O_RDONLY), 1)
        def execute(self, requests):
            metric = self.family.Metric()
            metric.increment(7)
            metric.value()
            self.wait()
            del metric
            self.family.Metric({{"other": "x"}}).value()
            self.wait()
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.zeros(1, np.float32))])]
    """
    served = serve(code)
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(served.call, **X)
        pages = []
        for _ in range(2):
            os.read(said, 1)
            pages.append(page(workshop))
            os.write(go, b"x")
        answer.result(20)
    assert "brief 7" in pages[0]
    assert "brief 7" not in pages[1]
    for descriptor in (said, go):
        os.close(descriptor)


def test_families_that_are_dropped_leave_their_name_free(serve, workshop):
    code = """
    class TritonPythonModel:
        def initialize(self, args):
            for kind in (pb_utils.MetricFamily.COUNTER, pb_utils.MetricFamily.GAUGE):
                family = pb_utils.MetricFamily("brief", "b", kind)
                del family
            for number in range(100):
                pb_utils.MetricFamily(f"brief_{number}", "b", pb_utils.MetricFamily.COUNTER)
        def execute(self, requests):
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.zeros(1, np.float32))])]
    """
    serve(code).call(**X)
    assert not workshop.metrics._families


@pytest.mark.parametrize(
    ("kind", "use"),
    [
        ("COUNTER", "increment(1)"),
        ("COUNTER", "value()"),
        ("GAUGE", "set(1)"),
        ("GAUGE", "increment(1)"),
        ("GAUGE", "value()"),
        ("HISTOGRAM", "observe(1)"),
    ],
)
def test_a_metric_whose_family_is_deleted_can_not_be_used(serve, workshop, kind, use):
    code = f"""
    class TritonPythonModel:
        def initialize(self, args):
            kind = pb_utils.MetricFamily.{kind}
            buckets = [1] if kind == pb_utils.MetricFamily.HISTOGRAM else None
            self.kept = pb_utils.MetricFamily("gone", "g", kind)
            family = pb_utils.MetricFamily("gone", "g", kind)
            self.metric = family.Metric(labels={{"of": "deleted"}}, buckets=buckets)
            self.other = self.kept.Metric(labels={{"of": "kept"}}, buckets=buckets)
            self.metric.{use}
            del family
        def execute(self, requests):
            self.other.{use}
            try:
                self.metric.{use}
            except pb_utils.TritonModelException as error:
                return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([str(error)], object))])]
    """
    found = serve(code, outputs="Y:TYPE_STRING:1").call(**X)["Y"][0].decode()
    assert "Invalid metric operation as the corresponding 'MetricFamily' has been deleted." in found
    assert "of 'gone'" in found
    assert 'of="kept"' in page(workshop)
    assert 'of="deleted"' not in page(workshop)


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("MF('bad name', 'x', MF.COUNTER)", "'bad name' can't be the name"),
        ("MF('n', 'x', 'other')", "unknown kind 'other'"),
        ("MF('seen', 'x', MF.COUNTER), MF('seen', 'x', MF.GAUGE)", "exists already"),
        ("family = MF('seen', 'x', MF.COUNTER); family.Metric().increment(-1)", "can only grow"),
        ("MF('seen', 'x', MF.COUNTER).Metric().set(1)", "'set' is not for metrics of kind counter"),
        ("MF('h', 'x', MF.HISTOGRAM).Metric()", "need buckets"),
        ("MF('h', 'x', MF.HISTOGRAM).Metric(buckets=[1]).value()", "'value' is not for metrics of kind histogram"),
    ],
)
def test_wrong_use_raises_in_the_model(serve, body, text):
    code = f"""
    MF = pb_utils.MetricFamily
    class TritonPythonModel:
        def execute(self, requests):
            try:
                {body}
            except pb_utils.TritonModelException as error:
                return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([str(error)], object))])]
    """
    found = serve(code, outputs="Y:TYPE_STRING:1").call(**X)["Y"][0].decode()
    assert text in found


def test_the_garbage_collector_may_drop_a_metric_at_any_moment(serve, workshop):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            family = pb_utils.MetricFamily("brief", "b", pb_utils.MetricFamily.COUNTER)
            metric = family.Metric()
            family.itself, metric.itself = family, metric
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.zeros(1, np.float32))])]
    """
    served = serve(code)
    served.call(**X)

    def collect():
        with workshop.metrics._lock:
            gc.collect()

    thread = threading.Thread(target=collect, daemon=True)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()


def test_threads_of_a_model_may_count_between_batches(serve, workshop):
    code = """
    import threading
    class TritonPythonModel:
        def initialize(self, args):
            self.family = pb_utils.MetricFamily("ticks", "t", pb_utils.MetricFamily.COUNTER)
            self.metric = self.family.Metric()
        def execute(self, requests):
            def tick():
                self.metric.increment(1)
                pb_utils.Logger.log_info("ticked")
            threading.Timer(0.01, tick).start()
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.zeros(1, np.float32))])]
    """
    serve(code).call(**X)
    workshop.log.wait_for("ticked")
    assert "ticks 1" in page(workshop)
