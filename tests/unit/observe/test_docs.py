"""docs/metrics.md has a row for each family that the server defines, with its type."""

import re
from pathlib import Path

from charonia.cache.local import LocalCache
from charonia.config.schema import ModelConfig
from charonia.observe.cache import CacheMetrics
from charonia.observe.cpu import CpuMetrics
from charonia.observe.gpu import Gpu, GpuMetrics
from charonia.observe.metrics import OWN_NAMES, Metrics
from charonia.observe.metrics_config import MetricsOptions
from charonia.observe.statistics import new_statistics
from charonia.testing.clock import ManualClock
from charonia.testing.models import FakeModel
from tests.models.nvml import FakeNvml

PAGE = Path(__file__).parents[3] / "docs" / "metrics.md"


def test_each_family_has_its_row():
    rows = re.findall(r"^\| `(\w+)` \| (counter|gauge|summary|histogram) \|", PAGE.read_text(), re.M)
    options = MetricsOptions(summary_latencies=True, histogram_latencies=True)
    cached = ModelConfig()
    cached.response_cache.enable = True
    models = [
        FakeModel(name, 1, config, new_statistics(options, config), batch_delay_us=0.0)
        for name, config in (("m", ModelConfig()), ("c", cached))
    ]
    clock = ManualClock()
    parts = (
        CacheMetrics(LocalCache(1).counters),
        CpuMetrics(clock, 1),
        GpuMetrics(FakeNvml(), (Gpu("GPU-a", 0, 0),), clock, 1),
    )
    text = Metrics(lambda: models, lambda: True, options, clock, parts).text()
    written = re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M)
    assert sorted(rows) == sorted(written)
    assert {name for name, _ in written} == OWN_NAMES
