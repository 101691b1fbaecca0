"""The dashboard and the alerts ask for metrics and labels that a server exports, and for no others."""

import itertools
import json
import re
import sys
from pathlib import Path

import pytest

import examples
from charonia.api import Server
from tests.every_door.scraped import exported
from tests.models.nvml import FakeNvml
from tests.models.repository import write_config

FOLDER = Path(examples.__file__).parent / "monitoring"
MODEL = """
    backend: "identity"
    max_batch_size: 4
    input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 1 ] } ]
    output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1 ] } ]
    instance_group [ { kind: KIND_CPU } ]
"""
EVERYTHING = {"summary_latencies": "true", "histogram_latencies": "true"}
FROM_PROMETHEUS = {"up": [{"job": "charonia"}]}
"""What Prometheus makes itself, with the labels that prometheus.yml gives."""
LABELS_OF_SCRAPING = {"instance", "job"}

GROUPING = re.compile(r"\b(?:by|without|on|ignoring)\s*\(([^)]*)\)")
SELECTOR = re.compile(r"(?<![\w:$])([a-zA-Z_:][\w:]*)\s*(?:\{([^}]*)\})?(?!\w*\s*\()")
MATCHER = re.compile(r'(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"')
OPERATORS = {"and", "or", "unless", "bool", "offset"}


@pytest.fixture(scope="module")
def metrics(tmp_path_factory):
    """{name: [labels of each sample]} of a server that exports families of every kind."""
    folder = tmp_path_factory.mktemp("repository")
    for name, more in (("m", ""), ("cached", "response_cache { enable: true }")):
        (write_config(folder, name, MODEL + more) / "1").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "pynvml", FakeNvml())
        patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        cache = {"local": {"size": "1000000"}}
        with Server(folder, metrics_port=0, metrics_config=EVERYTHING, cache_config=cache) as server:
            server.model("m").infer(INPUT0=[[1.0]])
            found = exported(server)
    return {name: [sample.labels for sample in samples] for name, samples in found.items()} | FROM_PROMETHEUS


def dashboard():
    return json.loads((FOLDER / "grafana-dashboard.json").read_text())


def of_dashboard():
    """(title, expression) of each query of the dashboard."""
    found = dashboard()
    for panel in found["panels"]:
        for target in panel.get("targets", ()):
            yield f"{panel['title']} {target['refId']}", target["expr"]
    for variable in found["templating"]["list"]:
        if variable["type"] == "query":
            selector, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["definition"]).groups()
            yield f"${variable['name']}", f"sum by ({label}) ({selector})"


def of_alerts():
    """(name, expression) of each rule."""
    text = (FOLDER / "alerts.yml").read_text()
    rules = re.findall(r"- alert: (\w+)\n +expr: (?:\|\n((?: {10,}.*\n)+)|(.*)\n)", text)
    assert len(rules) == text.count("alert:")
    for name, block, line in rules:
        yield name, block or line


def read(expression):
    """([(metric, [(label, operator, value)])], labels that the expression groups by)"""
    without_ranges = re.sub(r"\[[^\]]*\]", "", expression)
    grouping = {label.strip() for group in GROUPING.findall(without_ranges) for label in group.split(",")}
    selectors = [
        (name, MATCHER.findall(matchers))
        for name, matchers in SELECTOR.findall(GROUPING.sub("", without_ranges))
        if name not in OPERATORS
    ]
    return selectors, grouping


EXPRESSIONS = [*of_dashboard(), *of_alerts()]


@pytest.mark.parametrize("expression", [text for _, text in EXPRESSIONS], ids=[name for name, _ in EXPRESSIONS])
def test_each_expression_finds_its_metrics(metrics, expression):
    selectors, grouping = read(expression)
    assert selectors
    for name, matchers in selectors:
        assert name in metrics, f"no server exports {name}"
        of_metric = metrics[name]
        known = {label for labels in of_metric for label in labels} | LABELS_OF_SCRAPING
        assert grouping <= known, f"{name} has no label {grouping - known}"
        for label, operator, value in matchers:
            assert label in known, f"{name} has no label {label}"
            if operator in ("=", "!=") and "$" not in value:
                assert any(labels[label] == value for labels in of_metric), f"{name} never has {label}={value}"


def test_expressions_are_read_as_they_are():
    text = 'sum by (a, le) (rate(x_bucket{b="1",c=~"$d"}[5m])) / y:z > 0 and deriv(w[1m]) > 1'
    assert read(text) == ([("x_bucket", [("b", "=", "1"), ("c", "=~", "$d")]), ("y:z", []), ("w", [])], {"a", "le"})


def test_every_family_has_its_panel(metrics):
    """But for what says the same in another form, or nothing."""
    shown = {name for _, text in of_dashboard() for name, _ in read(text)[0]}
    left_out = re.compile(
        r".*_(count|sum|created)|nv_inference_compute_\w+_summary_us|nv_pinned_memory_pool_\w+_bytes|up"
    )
    assert {name for name in metrics if name not in shown and not left_out.fullmatch(name)} == set()


def test_panels_have_their_own_place_and_number():
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    taken = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = set(itertools.product(range(at["x"], at["x"] + at["w"]), range(at["y"], at["y"] + at["h"])))
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells


def test_the_scrape_is_of_the_right_path_and_port():
    text = (FOLDER / "prometheus.yml").read_text()
    assert "metrics_path: /metrics" in text
    assert '["localhost:8002"]' in text
    assert "- alerts.yml" in text
    assert "job_name: charonia" in text
