import asyncio
import json
import threading

import pytest

from charonia.config.json_form import config_to_json_text
from charonia.core.errors import Code, UnavailableError
from charonia.core.overrides import LoadOverrides
from charonia.frontend.control.app import ControlApp, MetricsApp
from charonia.frontend.control.asgi_bridge import AsgiBridge
from charonia.frontend.control.waiting import WaitingCalls
from charonia.observe.log import LogSettings
from charonia.observe.statistics import BatchStatistics, Duration
from charonia.testing.calls import FakeHttpCall

STATUS = {Code.INVALID_ARGUMENT: 400, Code.NOT_FOUND: 404, Code.UNAVAILABLE: 503, Code.UNIMPLEMENTED: 501}


@pytest.fixture
def ask(handlers, log):
    """ask("GET /v2", body) answers the call."""
    bridge = AsgiBridge(
        {
            "http": ControlApp(handlers, config_to_json_text, STATUS.__getitem__, log, WaitingCalls(), 8002),
            "metrics": MetricsApp(lambda: "up 1\n", STATUS.__getitem__, log),
        },
        log,
    )

    def send(line, body=b"", listener="http"):
        method, path = line.split(" ")
        call = FakeHttpCall(method, path, body=body, listener=listener)
        asyncio.run(bridge.serve(call))
        assert call.ended
        return call

    return send


def error_of(call):
    document = json.loads(call.answer)
    assert list(document) == ["error"]
    assert call.answer_headers["content-type"] == "application/json"
    return document["error"]


def test_server_metadata(ask):
    call = ask("GET /v2")
    assert call.status == 200
    assert call.answer.startswith(b'{"name":"triton","version":"2.73.0","extensions":["classification",')
    assert call.answer_headers["content-length"] == str(len(call.answer))
    assert call.answer_headers["content-type"] == "application/json"


def test_model_metadata(ask):
    assert ask("GET /v2/models/id").answer == (
        b'{"name":"id","versions":["1"],"platform":"python",'
        b'"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[-1,-1]}],'
        b'"outputs":[{"name":"OUTPUT0","datatype":"FP32","shape":[-1,-1]}]}'
    )
    assert json.loads(ask("GET /v2/models/addsub").answer)["versions"] == ["1", "3"]
    assert json.loads(ask("GET /v2/models/addsub/versions/1").answer)["versions"] == ["1"]
    assert json.loads(ask("GET /v2/models/addsub/versions/01").answer)["versions"] == ["1"]


def test_config(ask):
    config = json.loads(ask("GET /v2/models/addsub/versions/3/config").answer)
    assert config["name"] == "addsub"
    assert config["input"][1]["data_type"] == "TYPE_INT32"
    assert config["max_batch_size"] == 0


def test_statistics_of_a_fresh_model(ask):
    zero = '{"count":0,"ns":0}'
    names = ["success", "fail", "queue", "compute_input", "compute_infer", "compute_output", "cache_hit", "cache_miss"]
    durations = ",".join(f'"{name}":{zero}' for name in names)
    assert ask("GET /v2/models/id/stats").answer.decode() == (
        '{"model_stats":[{"name":"id","version":"1","last_inference":0,"inference_count":0,"execution_count":0,'
        f'"inference_stats":{{{durations}}},"response_stats":{{}},"batch_stats":[],"memory_usage":[]}}]}}'
    )


def test_statistics_with_batches(ask, models):
    counted = models[0].statistics
    counted.inference_count, counted.execution_count, counted.last_inference_ms = 8, 2, 1795967574523
    counted.batches[4] = BatchStatistics(Duration(2, 10), Duration(2, 20), Duration(2, 30))
    (stats,) = json.loads(ask("GET /v2/models/id/versions/1/stats").answer)["model_stats"]
    assert (stats["inference_count"], stats["execution_count"], stats["last_inference"]) == (8, 2, 1795967574523)
    assert json.dumps(stats["batch_stats"], separators=(",", ":")) == (
        '[{"batch_size":4,"compute_input":{"count":2,"ns":10},"compute_infer":{"count":2,"ns":20},'
        '"compute_output":{"count":2,"ns":30}}]'
    )


def test_statistics_of_a_version_that_is_not_loaded(ask):
    call = ask("GET /v2/models/bad/versions/1/stats")
    assert call.status == 503
    said = error_of(call)
    assert said.startswith(
        "Request for unknown model: 'bad' version 1 is not at ready state (version 1: no such file); "
    )
    assert "requested model version is not available for model 'bad'" in said


def test_statistics_of_all(ask):
    stats = json.loads(ask("GET /v2/models/stats").answer)["model_stats"]
    assert [(each["name"], each["version"]) for each in stats] == [("addsub", "1"), ("addsub", "3"), ("id", "1")]


def test_index(ask):
    assert ask("POST /v2/repository/index").answer == (
        b'[{"name":"addsub","version":"1","state":"READY"},{"name":"addsub","version":"3","state":"READY"},'
        b'{"name":"bad","version":"1","state":"UNAVAILABLE","reason":"no such file"},'
        b'{"name":"id","version":"1","state":"READY"},{"name":"late","version":"1","state":"LOADING"},'
        b'{"name":"shelf"}]'
    )


@pytest.mark.parametrize("path", ["/v2/repository/index", "/v2/repository/anything/index"])
def test_index_of_ready_models(ask, path):
    names = [entry["name"] for entry in json.loads(ask(f"POST {path}", b'{"ready":true}').answer)]
    assert names == ["addsub", "addsub", "id"]
    assert len(json.loads(ask(f"POST {path}", b'{"ready":false,"other":1}').answer)) == 6


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b"null",
        b"{} {}",
        b'{"ready":"true"}',
        b'{"ready":1}',
        b'{"ready":null}',
        b'{"ready":NaN}',
        b"\xff\xfe",
        b'{"x":' + b"[" * 200 + b"]" * 200 + b"}",
        b"[" * 60000,
        b'{"x":' + b"1" * 6000 + b"}",
    ],
)
def test_index_with_a_wrong_body(ask, body):
    call = ask("POST /v2/repository/index", body)
    assert call.status == 400
    assert "repository index" in error_of(call)


def test_half_a_megabyte_of_brackets_is_no_boolean(ask):
    call = ask("POST /v2/repository/index", b'{"ready":' + b"[" * 250000 + b"true" + b"]" * 250000 + b"}")
    assert call.status == 400
    assert "Invalid value for 'ready': expected a boolean" in error_of(call)


def test_a_large_body_is_read(ask):
    assert ask("POST /v2/repository/index", b'{"x":"' + b"a" * 200_000 + b'"}').status == 200


def test_health(ask, server, models):
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/id/ready", "/v2/models/addsub/versions/3/ready"):
        call = ask(f"GET {path}")
        assert (call.status, call.answer, call.answer_headers["content-length"]) == (200, b"", "0")
    server.live = server.ready = False
    models[0].live_instances = 0
    for path in ("/v2/health/live", "/v2/health/ready", "/v2/models/id/ready", "/v2/models/late/ready"):
        assert ask(f"GET {path}").status == 400


@pytest.mark.parametrize(
    "line",
    [
        "GET /v2/models/nope",
        "GET /v2/models/nope/ready",
        "GET /v2/models/nope/config",
        "GET /v2/models/nope/stats",
        "GET /v2/models/nope/trace/setting",
        "GET /v2/models/nope/logging",
        "GET /v2/models/i%64x",
        "GET /v2/models/id%2Fconfig",
        "GET /v2/models/%ff%00",
    ],
)
def test_unknown_models(ask, line):
    call = ask(line)
    assert call.status == 404
    assert error_of(call) != "Not Found"


def test_unknown_versions_and_versions_too_large(ask):
    assert "version 9" in error_of(ask("GET /v2/models/addsub/versions/9"))
    assert ask("GET /v2/models/addsub/versions/0").status == 404
    call = ask("GET /v2/models/addsub/versions/99999999999999999999/stats")
    assert call.status == 400
    assert "failed to get model version from specified version string" in error_of(call)


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/v1",
        "/v2/",
        "/v2/nothing",
        "/v2/models",
        "/v2/models/",
        "/v2/models/id/",
        "/v2//models/id",
        "//v2",
        "/v2/models//config",
        "/v2/models/id/versions/1/trace/setting",
        "/v2/health",
        "/v2%2Fhealth/live",
    ],
)
def test_unknown_paths(ask, path):
    for method in ("GET", "DELETE"):
        call = ask(f"{method} {path}")
        assert (call.status, error_of(call)) == (404, f"Not Found: there is no {method} {path}")


def test_unknown_paths_are_cut_and_printable(ask):
    call = ask(f"GET /\x1b{'a' * 1000}")
    assert (call.status, error_of(call)) == (404, "Not Found: there is no GET /\\x1b" + "a" * 198 + "…")


@pytest.mark.parametrize("version", ["latest", "-1", "%31"])
def test_versions_that_are_no_numbers(ask, version):
    for rest in ("", "/config"):
        call = ask(f"GET /v2/models/id/versions/{version}{rest}")
        said = f"Not Found: '{version}' is no version number, which has digits only"
        assert (call.status, error_of(call)) == (404, said)


def test_metrics_are_on_another_port(ask):
    call = ask("GET /metrics")
    assert (call.status, error_of(call)) == (404, "Not Found: metrics are on port 8002 (--metrics-port)")


@pytest.mark.parametrize(
    ("line", "allow"),
    [
        ("POST /v2", "GET, HEAD"),
        ("OPTIONS /v2", "GET, HEAD"),
        ("DELETE /v2/models/id", "GET, HEAD"),
        ("POST /v2/models/id/config", "GET, HEAD"),
        ("POST /v2/models/nope/ready", "GET, HEAD"),
        ("POST /v2/models/stats", "GET, HEAD"),
        ("GET /v2/repository/index", "POST"),
        ("GET /v2/models/id/infer", "POST"),
        ("GET /v2/models/id/generate", "POST"),
        ("PUT /v2/models/id/versions/1/generate_stream", "POST"),
        ("PUT /v2/logging", "GET, HEAD, POST"),
        ("PUT /v2/models/id/logging", "GET, HEAD, POST"),
        ("POST /v2/systemsharedmemory/status", "GET, HEAD"),
        ("GET /v2/systemsharedmemory/unregister", "POST"),
        ("GET /v2/repository/models/id/load", "POST"),
    ],
)
def test_wrong_methods(ask, line, allow):
    call = ask(line)
    assert (call.status, error_of(call)) == (405, "Method Not Allowed")
    assert call.answer_headers["allow"] == allow


def test_head_is_get_without_a_body(ask):
    get, head = ask("GET /v2/models/id"), ask("HEAD /v2/models/id")
    assert (head.status, head.answer) == (200, b"")
    assert head.answer_headers == get.answer_headers


def test_names_are_decoded_after_routing(ask):
    assert ask("GET /v2/models/i%64").answer == ask("GET /v2/models/id").answer


def test_load_and_unload(ask, control):
    for action in ("load", "unload"):
        for body in (b"", b"{}", b'{"parameters":{}}'):
            call = ask(f"POST /v2/repository/models/a%20b/{action}", body)
            assert (call.status, call.answer, call.answer_headers["content-type"]) == (200, b"", "application/json")
    assert control.calls == [("load", "a b", LoadOverrides())] * 3 + [("unload", "a b", False)] * 3


def test_what_load_and_unload_say_reaches_the_client(ask, control):
    control.error = UnavailableError("explicit model load / unload is not allowed")
    for action in ("load", "unload"):
        call = ask(f"POST /v2/repository/models/id/{action}")
        assert (call.status, error_of(call)) == (503, "explicit model load / unload is not allowed")
        assert "repository_name" in error_of(ask(f"POST /v2/repository/foo/models/id/{action}"))
    assert not control.calls


@pytest.mark.parametrize(
    ("sent", "name"),
    [
        ("%2e%2e%2Fid", "../id"),
        ("a%0Ab", "a\nb"),
        ("%00", "\x00"),
        ("%ff", "\udcff"),
        ("%E2%82%AC+", "€+"),
        ("a%252F", "a%2F"),
    ],
)
def test_names_reach_the_control_decoded(ask, control, sent, name):
    ask(f"POST /v2/repository/models/{sent}/load")
    assert control.calls == [("load", name, LoadOverrides())]


def test_a_wrong_body_of_load_and_unload(ask, control):
    for action in ("load", "unload"):
        for body in (b"{", b"[]", b'{"parameters":[]}', b'{"parameters":null}'):
            call = ask(f"POST /v2/repository/models/id/{action}", body)
            assert call.status == 400
            assert f"{action} model body" in error_of(call)
    assert not control.calls


def test_load_waits_on_another_thread(ask, control):
    control.before = lambda: control.calls.append(threading.current_thread().name)
    ask("POST /v2/repository/models/id/load")
    assert control.calls[0] == "control-wait"


def test_a_fault_is_answered_and_logged(ask, models, log):
    models[0].statistics = None
    call = ask("GET /v2/models/id/stats")
    assert call.status == 500
    assert "GET /v2/models/id/stats" in error_of(call)
    assert "Traceback" in log.errors[0]
    assert ask("GET /v2/models/addsub/stats").status == 200


def test_metrics_port(ask):
    call = ask("GET /metrics", listener="metrics")
    assert (call.status, call.answer) == (200, b"up 1\n")
    assert call.answer_headers["content-type"] == "text/plain; charset=utf-8"
    root = ask("GET /", listener="metrics")
    assert (root.status, root.answer) == (200, b"")
    post = ask("POST /metrics", listener="metrics")
    assert (post.status, error_of(post)) == (405, "Method Not Allowed")
    for path in ("/metrics/", "/v2/health/ready"):
        call = ask(f"GET {path}", listener="metrics")
        assert call.status == 404
        assert error_of(call).startswith("Not Found: this is the metrics port")


DEFAULT_SETTINGS = (
    b'{"log_file":"","log_info":true,"log_warning":true,"log_error":true,"log_verbose_level":0,"log_format":"default"}'
)


def test_log_settings(ask, server_log):
    for line, body in (("GET /v2/logging", b""), ("POST /v2/logging", b"{}")):
        assert ask(line, body).answer == DEFAULT_SETTINGS
    call = ask("POST /v2/logging", b'{"log_info":false,"log_verbose_level":2,"log_format":"ISO8601","log_error":null}')
    assert call.answer == (
        b'{"log_file":"","log_info":false,"log_warning":true,"log_error":true,"log_verbose_level":2,'
        b'"log_format":"ISO8601"}'
    )
    assert server_log.settings == LogSettings(info=False, verbose_level=2, format="ISO8601")
    assert ask("POST /v2/logging", b'{"log_file":"x"}').status == 501
    assert "log_info" in error_of(ask("POST /v2/logging", b'{"log_info":"false"}'))


def test_log_levels_of_a_model(ask, server_log):
    path = "/v2/models/i%64/logging"
    levels = b'{"log_info":true,"log_warning":false,"log_error":true,"log_verbose_level":3}'
    assert ask(f"POST {path}", b'{"log_verbose_level":3,"log_warning":false}').answer == levels
    assert ask(f"GET {path}").answer == levels
    assert server_log.levels_of("id").verbose_level == 3
    assert ask(f"POST {path}", b'{"log_verbose_level":null,"log_warning":null}').answer == (
        b'{"log_info":true,"log_warning":true,"log_error":true,"log_verbose_level":0}'
    )
    assert ask(f"POST {path}", b'{"log_format":"json"}').status == 400
    assert ask("GET /v2/logging").answer == DEFAULT_SETTINGS
