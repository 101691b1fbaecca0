import pytest

from charonia.core.errors import InvalidArgumentError, UnsupportedError
from charonia.observe.custom_metrics import CustomMetrics, MetricKind
from charonia.observe.exposition import Exposition


@pytest.fixture
def custom():
    return CustomMetrics()


def lines(custom):
    out = Exposition()
    custom.write(out)
    return out.text().splitlines()


def test_counter(custom):
    metric = custom.family("hits", "how often", MetricKind.COUNTER).metric({"b": "2", "a": "1"})
    assert metric.value() == 0
    metric.increment(2023)
    metric.increment(0.5)
    assert metric.value() == 2023.5
    assert lines(custom) == ["# HELP hits how often", "# TYPE hits counter", 'hits{a="1",b="2"} 2023.5']
    for wrong in (-1, float("nan")):
        with pytest.raises(InvalidArgumentError, match="hits"):
            metric.increment(wrong)
    with pytest.raises(UnsupportedError):
        metric.set(1)
    with pytest.raises(UnsupportedError):
        metric.observe(1)


def test_gauge(custom):
    metric = custom.family("level", "", MetricKind.GAUGE).metric({})
    metric.increment(-23.5)
    assert metric.value() == -23.5
    metric.set(999)
    assert lines(custom)[-1] == "level 999"
    with pytest.raises(UnsupportedError):
        metric.observe(1)


def test_histogram(custom):
    metric = custom.family("sizes", "", MetricKind.HISTOGRAM).metric({"m": "x"}, [0.1, 1.0, 2.5, 5.0, 10.0])
    for value in (0.05, 1.5, 6.0, 10.0):
        metric.observe(value)
    assert lines(custom)[2:] == [
        'sizes_count{m="x"} 4',
        'sizes_sum{m="x"} 17.55',
        'sizes_bucket{m="x",le="0.1"} 1',
        'sizes_bucket{m="x",le="1"} 1',
        'sizes_bucket{m="x",le="2.5"} 2',
        'sizes_bucket{m="x",le="5"} 2',
        'sizes_bucket{m="x",le="10"} 4',
        'sizes_bucket{m="x",le="+Inf"} 4',
    ]
    for operation in (lambda: metric.increment(1), lambda: metric.set(1), metric.value):
        with pytest.raises(UnsupportedError):
            operation()


@pytest.mark.parametrize("buckets", [None, [2.5, 0.1], [1, 1, 2], [float("nan"), 1]])
def test_wrong_buckets(custom, buckets):
    with pytest.raises(InvalidArgumentError, match="sizes"):
        custom.family("sizes", "", MetricKind.HISTOGRAM).metric({}, buckets)


def test_buckets_may_be_empty_and_are_for_histograms_only(custom):
    custom.family("sizes", "", MetricKind.HISTOGRAM).metric({}, []).observe(3)
    assert lines(custom)[2:] == ["sizes_count 1", "sizes_sum 3", 'sizes_bucket{le="+Inf"} 1']
    with pytest.raises(InvalidArgumentError):
        custom.family("hits", "", MetricKind.COUNTER).metric({}, [1.0])


def test_same_labels_are_the_same_metric_until_the_last_handle_goes(custom):
    family = custom.family("hits", "", MetricKind.COUNTER)
    one, two = family.metric({"a": "1"}), family.metric({"a": "1"})
    one.increment(7.5)
    assert two.value() == 7.5
    one.remove()
    one.remove()
    assert lines(custom)[-1] == 'hits{a="1"} 7.5'
    with pytest.raises(InvalidArgumentError, match="removed"):
        one.increment(1)
    two.remove()
    assert lines(custom) == []
    assert family.metric({"a": "1"}).value() == 0


def test_families_are_known_by_name(custom):
    first = custom.family("hits", "first", MetricKind.COUNTER)
    assert custom.family("hits", "second", MetricKind.COUNTER) is first
    with pytest.raises(InvalidArgumentError, match="counter and not a gauge"):
        custom.family("hits", "first", MetricKind.GAUGE)
    first.metric({})
    assert "# HELP hits first" in lines(custom)


def test_a_family_goes_with_the_last_who_holds_it(custom):
    first, second = (custom.family("hits", text, MetricKind.COUNTER) for text in ("first", "second"))
    metric = first.metric({})
    first.remove()
    second.remove()
    assert lines(custom)[0] == "# HELP hits first"
    metric.remove()
    assert lines(custom) == []
    custom.family("hits", "another", MetricKind.GAUGE).metric({})
    assert lines(custom)[0] == "# HELP hits another"
    assert len(custom._families) == 1


@pytest.mark.parametrize("name", ["", "1x", "a-b", "a b", "a\n"])
def test_wrong_family_names(custom, name):
    with pytest.raises(InvalidArgumentError):
        custom.family(name, "", MetricKind.GAUGE)


def test_wrong_labels(custom):
    with pytest.raises(InvalidArgumentError, match="a-b"):
        custom.family("hits", "", MetricKind.GAUGE).metric({"a-b": "x"})
    with pytest.raises(InvalidArgumentError, match="__name__"):
        custom.family("hits", "", MetricKind.GAUGE).metric({"__name__": "up"})
    with pytest.raises(InvalidArgumentError, match="'le'"):
        custom.family("sizes", "", MetricKind.HISTOGRAM).metric({"le": "x"}, [1])
