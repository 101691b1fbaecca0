"""Where the live page is, and what its answers say to a browser."""

import pytest
import requests

import charonia
from charonia.core.errors import InvalidArgumentError
from tests.models.repository import write_config

CONFIG = """
    backend: "identity"
    input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ 1 ] } ]
    output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""
FILES = ("", "/page.css", "/page.js", "/numbers.js", "/try.js", "/asking.js", "/tensors.js", "/state")


@pytest.fixture
def serve(tmp_path):
    (write_config(tmp_path, "m", CONFIG) / "1").mkdir()

    def serve(**options):
        return charonia.Server(tmp_path, http_port=0, metrics_port=0, http_address="127.0.0.1", **options)

    return serve


def ask(server, port, path, method="GET"):
    return requests.request(method, f"http://127.0.0.1:{server.ports[port]}/live{path}", timeout=30)


@pytest.mark.parametrize("path", FILES)
def test_by_default_it_is_at_the_metrics_port_alone(serve, path):
    with serve() as server:
        assert ask(server, "metrics", path).status_code == 200
        assert ask(server, "http", path).status_code == 404
        assert ask(server, "metrics", path, "POST").status_code == 405


def test_it_can_be_turned_off(serve):
    with serve(allow_live_page=False) as server:
        assert ask(server, "metrics", "").status_code == 404
        assert requests.get(f"http://127.0.0.1:{server.ports['metrics']}/metrics", timeout=30).status_code == 200


def test_only_its_own_files_are_allowed_to_run(serve):
    with serve() as server:
        policy = ask(server, "metrics", "").headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy


def test_the_state_is_never_kept(serve):
    with serve(id="mine", allow_try_it=True) as server:
        at_metrics, at_http = ask(server, "metrics", "/state"), ask(server, "http", "/state")
    assert at_metrics.headers["cache-control"] == "no-store"
    state = at_metrics.json()
    assert (state["id"], state["ready"], state["models"][0]["name"]) == ("mine", True, "m")
    assert state["wire"]["open_connections"] == 1
    assert not state["try_it"]
    assert state["try_port"] == int(at_http.url.split(":")[2].split("/")[0])
    assert at_http.json()["try_it"]


def test_nobody_else_can_have_its_paths(serve):
    with pytest.raises(InvalidArgumentError, match="own paths"):
        serve(mount={"/live": object()})
