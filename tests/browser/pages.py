"""A server with models, and where things are on its page."""

import contextlib
import json

import charonia
from tests.models.repository import write_config

CONFIG = """
    backend: "identity"
    max_batch_size: 4
    input [ { name: "INPUT0" data_type: TYPE_INT64 dims: [ 2 ] } ]
    output [ { name: "OUTPUT0" data_type: TYPE_INT64 dims: [ 2 ] } ]
    instance_group [ { kind: KIND_CPU count: 3 } ]
"""


def add(folder, name, config=CONFIG):
    (write_config(folder, name, config) / "1").mkdir()


@contextlib.contextmanager
def serving(repository, **options):
    with charonia.Server(repository, http_port=0, metrics_port=0, http_address="127.0.0.1", **options) as server:
        yield server


def at(server, port="metrics"):
    return f"http://127.0.0.1:{server.ports[port]}/live"


def card(page, name):
    return page.locator(f"article[data-model={json.dumps(name)}]")


def put(field, text):
    """Type it, and leave the field."""
    field.fill(text)
    field.dispatch_event("change")
