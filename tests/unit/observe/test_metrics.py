import pytest
from prometheus_client.parser import text_string_to_metric_families

from charonia.config.schema import ModelConfig
from charonia.core.errors import InvalidArgumentError
from charonia.observe.custom_metrics import MetricKind
from charonia.observe.metrics import OWN_NAMES, Metrics
from charonia.observe.metrics_config import MetricsOptions
from charonia.observe.statistics import Duration, ModelStatistics, new_statistics
from charonia.testing.models import FakeModel

COUNTERS = (
    "nv_inference_request_success",
    "nv_inference_count",
    "nv_inference_exec_count",
    "nv_inference_request_duration_us",
    "nv_inference_queue_duration_us",
    "nv_inference_compute_input_duration_us",
    "nv_inference_compute_infer_duration_us",
    "nv_inference_compute_output_duration_us",
)


class Hand:
    ns = 0

    def now_ns(self):
        return self.ns


def ready():
    return True


def families(text):
    return {family.name: family for family in text_string_to_metric_families(text)}


def text_of(*models, **options):
    return Metrics(lambda: models, ready, MetricsOptions(**options), Hand()).text()


def test_everything_is_there_and_zero_from_load_on():
    lines = text_of(FakeModel("m")).splitlines()
    for name in COUNTERS:
        assert f"# TYPE {name} counter" in lines
        assert f'{name}{{model="m",version="1"}} 0' in lines
    for reason in ("REJECTED", "CANCELED", "BACKEND", "OTHER"):
        assert f'nv_inference_request_failure{{model="m",reason="{reason}",version="1"}} 0' in lines
    assert "# TYPE nv_inference_pending_request_count gauge" in lines
    assert 'nv_inference_pending_request_count{model="m",version="1"} 0' in lines
    assert 'nv_model_load_duration_secs{model="m",version="1"} 0' in lines
    assert "nv_pinned_memory_pool_total_bytes 0" in lines
    assert "nv_pinned_memory_pool_used_bytes 0" in lines


def test_readiness():
    is_ready = False
    metrics = Metrics(list, lambda: is_ready, MetricsOptions(), Hand())
    assert "\ncharonia_server_ready 0\n" in metrics.text()
    is_ready = True
    assert "\ncharonia_server_ready 1\n" in metrics.text()


def test_values_come_from_the_statistics():
    model = FakeModel("m", 3, pending_count=4)
    counted = model.statistics
    counted.success, counted.queue = Duration(2, 5_999), Duration(2, 1_000_000)
    counted.compute_input, counted.compute_infer, counted.compute_output = (
        Duration(2, 1000),
        Duration(2, 2000),
        Duration(2, 3000),
    )
    counted.inference_count, counted.execution_count, counted.load_duration_ns = 8, 1, 1_500_000_000
    counted.failures["REJECTED"] = 7
    lines = text_of(model).splitlines()
    for name, value in {
        "nv_inference_request_success": 2,
        "nv_inference_count": 8,
        "nv_inference_exec_count": 1,
        "nv_inference_request_duration_us": 5,
        "nv_inference_queue_duration_us": 1000,
        "nv_inference_compute_input_duration_us": 1,
        "nv_inference_compute_infer_duration_us": 2,
        "nv_inference_compute_output_duration_us": 3,
        "nv_inference_pending_request_count": 4,
        "nv_model_load_duration_secs": 1.5,
    }.items():
        assert f'{name}{{model="m",version="3"}} {value}' in lines
    assert 'nv_inference_request_failure{model="m",reason="REJECTED",version="3"} 7' in lines


def test_latency_histograms_are_cumulative_seconds():
    model = FakeModel("m")
    for ns in (50_000, 2_000_000, 2_000_000, 120_000_000_000):
        model.statistics.queue_latency.observe(ns)
    text = text_of(model)
    prefix = 'charonia_request_latency_seconds_bucket{model="m",phase="queue",version="1",le='
    assert f'{prefix}"0.0001"}} 1' in text
    assert f'{prefix}"0.0025"}} 3' in text
    assert f'{prefix}"60"}} 3' in text
    assert f'{prefix}"+Inf"}} 4' in text
    assert 'charonia_request_latency_seconds_count{model="m",phase="queue",version="1"} 4' in text
    assert 'charonia_request_latency_seconds_sum{model="m",phase="queue",version="1"} 120.00405' in text
    samples = families(text)["charonia_request_latency_seconds"].samples
    assert {sample.labels["phase"] for sample in samples} == {"queue", "compute", "total"}


def test_each_family_stands_once_with_all_models():
    text = text_of(FakeModel("a"), FakeModel("b", 1), FakeModel("b", 2))
    assert text.count("# TYPE nv_inference_count ") == 1
    samples = families(text)["nv_inference_count"].samples
    assert [(s.labels["model"], s.labels["version"]) for s in samples] == [("a", "1"), ("b", "1"), ("b", "2")]


def test_counter_latencies_can_be_left_out():
    text = text_of(FakeModel("m"), counter_latencies=False)
    assert "_duration_us" not in text
    assert "nv_inference_count" in text
    assert "nv_model_load_duration_secs" in text


def test_tags_of_the_config_are_labels():
    config = ModelConfig()
    config.metric_tags["team.x"] = 'a"b\\c\n'
    text = text_of(FakeModel("m", 1, config))
    assert r'nv_inference_count{_team_x="a\"b\\c\n",model="m",version="1"} 0' in text
    (sample,) = families(text)["nv_inference_count"].samples
    assert sample.labels["_team_x"] == 'a"b\\c\n'


def test_what_gpus_count_has_their_label():
    on_gpu = ModelStatistics()
    on_gpu.inference_count = 7
    text = text_of(FakeModel("m", pending_count=2, gpu_statistics={"GPU-a": on_gpu}))
    samples = families(text)["nv_inference_count"].samples
    assert [(sample.labels.get("gpu_uuid"), sample.value) for sample in samples] == [(None, 0), ("GPU-a", 7)]
    assert 'nv_inference_request_failure{gpu_uuid="GPU-a",model="m",reason="OTHER",version="1"} 0' in text
    # What waits does not wait for one of them.
    (pending,) = families(text)["nv_inference_pending_request_count"].samples
    assert pending.value == 2


def test_metrics_of_models_come_and_go_with_them():
    models = []
    metrics = Metrics(lambda: models, ready, MetricsOptions(summary_latencies=True, histogram_latencies=True), Hand())
    without = metrics.text()
    assert "nv_inference" not in without
    models.append(FakeModel("m"))
    assert "nv_inference_count" in metrics.text()
    models.clear()
    assert metrics.text() == without


def test_the_servers_own_families_are_reserved():
    metrics = Metrics(lambda: [FakeModel("m")], ready, MetricsOptions(), Hand())
    written = set(families(metrics.text())) | {"nv_cpu_utilization", "nv_gpu_power_usage"}
    assert written <= OWN_NAMES
    for name in ("nv_inference_count", "nv_inference_queue_summary_us_sum", "charonia_request_latency_seconds_bucket"):
        with pytest.raises(InvalidArgumentError, match="server's own"):
            metrics.custom.family(name, "mine", MetricKind.COUNTER)


def test_custom_metrics_and_parts_are_in_the_output():
    class Part:
        def write(self, out):
            out.single("part_total", "gauge", "p", 1)

    metrics = Metrics(list, ready, MetricsOptions(), Hand(), [Part()])
    metrics.custom.family("mine", "m", MetricKind.GAUGE).metric({}).set(2.5)
    text = metrics.text()
    assert "part_total 1\n" in text
    assert "mine 2.5\n" in text


def test_the_delay_of_models_that_have_a_latency_target():
    text = text_of(FakeModel("m", batch_delay_us=1500.0), FakeModel("fixed"))
    delays = families(text)["charonia_batch_delay_us"].samples
    assert [(each.labels["model"], each.value) for each in delays] == [("m", 1500.0)]


def test_a_model_with_a_cache_tells_hits_and_misses():
    config = ModelConfig()
    config.response_cache.enable = True
    options = MetricsOptions(summary_latencies=True)
    counted = new_statistics(options, config)
    counted.cache_hit, counted.cache_miss = Duration(2, 9_999), Duration(1, 3_000)
    assert counted.summaries is not None
    counted.summaries.record_hit(4_000, 0)
    counted.summaries.record_miss(3_000, 0)
    model = FakeModel("m", 1, config, counted)
    page = Metrics(lambda: [model], ready, options, Hand()).text()
    for name, value in {
        "nv_cache_num_hits_per_model": 2,
        "nv_cache_num_misses_per_model": 1,
        "nv_cache_hit_duration_per_model": 9,
        "nv_cache_miss_duration_per_model": 3,
        "nv_cache_hit_summary_per_model_count": 1,
        "nv_cache_miss_summary_per_model_sum": 3,
    }.items():
        assert f'{name}{{model="m",version="1"}} {value}\n' in page
    assert 'nv_cache_hit_summary_per_model{model="m",version="1",quantile="0.5"}' in page
    assert "nv_inference_request_summary_us" not in page
    assert "nv_cache" not in text_of(FakeModel("plain"), summary_latencies=True)
