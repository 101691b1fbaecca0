"""The metrics page as Prometheus reads it."""

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.models.gated import PATIENCE_S


def page(server):
    """The text of `/metrics`."""
    answer = httpx.get(f"http://127.0.0.1:{server.ports['metrics']}/metrics", timeout=PATIENCE_S, verify=False)
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    return answer.text


def scrape(server):
    """Families by name, read by Prometheus' own parser."""
    return {family.name: family for family in text_string_to_metric_families(page(server))}


def exported(server):
    """{name: samples}, under the names that stand on the page."""
    found = {}
    for family in scrape(server).values():
        for sample in family.samples:
            # The parser calls the samples of a counter `<name>_total`, whatever the page calls them.
            name = sample.name.removesuffix("_total") if family.type == "counter" else sample.name
            found.setdefault(name, []).append(sample)
    return found


def samples(server, name, **labels):
    """{other labels: value} of the samples called `name` that have `labels`."""
    return {
        tuple(sorted((key, value) for key, value in sample.labels.items() if key not in labels)): sample.value
        for sample in exported(server)[name]
        if labels.items() <= sample.labels.items()
    }


def value(server, name, **labels):
    """Of the only sample called `name` with these labels."""
    (only,) = samples(server, name, **labels).values()
    return only


def failures(server, model="m"):
    """{reason: count}, without the reasons that never occurred."""
    found = samples(server, "nv_inference_request_failure", model=model, version="1")
    return {dict(labels)["reason"]: value for labels, value in found.items() if value}
