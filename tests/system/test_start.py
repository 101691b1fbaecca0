"""How the command starts: ports, tables, exit codes."""

import json
import re
import socket
import subprocess
import sys

import pytest

from tests.models.repository import write_python_model

BODY = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 2], "data": [1.5, 2.5]}]}
# Far longer than the questions asked meanwhile take; the tests don't wait for its end.
LONG_LOAD_MS = 60_000


def run(*flags: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "charonia", "serve", *flags], capture_output=True, text=True, timeout=30, check=False
    )


def test_a_port_of_0_is_a_free_one_and_is_printed(serve, repository):
    repository.add("m")
    server = serve(repository.flag).started()
    assert len(set(server.ports.values())) == 3
    assert 0 not in server.ports.values()
    assert server.ask("GET", "/v2/health/live").status == 200
    assert server.ask("GET", "/v2/health/ready").status == 200
    assert server.ask("POST", "/v2/models/m/infer", BODY).json()["outputs"][0]["data"] == [1.5, 2.5]
    assert "nv_inference_count" in server.ask("GET", "/metrics", port="metrics").text
    assert re.search(r"\| m +\| 1 +\| READY +\|", server.text)


def test_before_the_models_are_loaded(serve, repository):
    repository.add("quick")
    repository.add_slow_to_load("slow", LONG_LOAD_MS)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    server = serve(
        repository.flag,
        f"--http-port={port}",
        "--grpc-port=0",
        "--metrics-port=0",
        "--exit-timeout-secs=0",
        ports=False,
    )
    server.ports["http"] = port
    server.wait_for("successfully loaded 'quick'")
    assert server.ask("GET", "/v2/health/live").status == 200
    assert server.ask("GET", "/v2/health/ready").status == 400
    assert server.ask("GET", "/v2/models/slow/ready").status == 400
    assert server.ask("GET", "/v2/models/quick/ready").status == 200
    refused = server.ask("POST", "/v2/models/slow/infer", BODY)
    assert refused.status == 503
    assert "loading" in refused.json()["error"]
    assert server.ask("POST", "/v2/models/quick/infer", BODY).status == 200
    assert {"name": "slow", "version": "1", "state": "LOADING"} in server.ask("POST", "/v2/repository/index").json()
    server.signal()
    assert server.exit_code() == 1  # the warm-up does not end within the exit time-out


def test_a_bad_model_ends_the_start_after_all_models_were_tried(serve, repository):
    repository.add("good")
    repository.add_broken("bad")
    repository.add("worse", "max_batch_size: -3")
    server = serve(repository.flag)
    assert server.exit_code() == 1
    assert "successfully loaded 'good'" in server.text
    assert re.search(r"\| good +\| 1 +\| READY +\|", server.text)
    assert re.search(r"\| bad +\| - +\| UNAVAILABLE: .*[^+]*no_such_field", server.text)
    assert re.search(r"\| worse +\| - +\| UNAVAILABLE: ", server.text)
    assert "failed to load all models" in server.text


def test_with_exit_on_error_off_the_others_serve(serve, repository):
    repository.add("good")
    repository.add_broken("bad")
    server = serve(repository.flag, "--exit-on-error=false").started()
    assert server.ask("GET", "/v2/health/live").status == 200
    assert server.ask("GET", "/v2/health/ready").status == 400
    assert server.ask("POST", "/v2/models/good/infer", BODY).status == 200
    (bad, good) = server.ask("POST", "/v2/repository/index").json()
    assert (bad["name"], bad["state"]) == ("bad", "UNAVAILABLE")
    assert "no_such_field" in bad["reason"]
    assert good == {"name": "good", "version": "1", "state": "READY"}
    answer = server.ask("POST", "/v2/models/bad/infer", BODY)
    assert answer.status == 404
    assert "no available versions" in answer.json()["error"]


def test_without_strict_readiness_a_bad_model_does_not_count(serve, repository):
    repository.add_broken("bad")
    server = serve(repository.flag, "--exit-on-error=false", "--strict-readiness=false").started()
    assert server.ask("GET", "/v2/health/ready").status == 200


def test_a_name_in_two_repositories_fails_that_model_only(serve, repository, tmp_path):
    other = type(repository)(tmp_path / "other")
    for each in (repository, other):
        each.add("twice")
    other.add("once")
    server = serve(repository.flag, other.flag, "--exit-on-error=false").started()
    once, twice = server.ask("POST", "/v2/repository/index").json()
    assert (once["name"], once["state"]) == ("once", "READY")
    assert (twice["name"], twice["state"]) == ("twice", "UNAVAILABLE")
    assert "version" not in twice
    assert "two or more repositories" in twice["reason"]


def test_explicit_control_loads_what_is_asked_for(serve, repository):
    repository.add("a")
    repository.add("b")
    server = serve(repository.flag, "--model-control-mode=explicit", "--load-model=a").started()
    assert server.ask("POST", "/v2/repository/index").json() == [
        {"name": "a", "version": "1", "state": "READY"},
        {"name": "b"},
    ]
    assert server.ask("GET", "/v2/health/ready").status == 200


def test_explicit_control_of_a_model_that_is_not_there(serve, repository):
    repository.add("a")
    server = serve(repository.flag, "--model-control-mode=explicit", "--load-model=nope")
    assert server.exit_code() == 1
    assert "'nope'" in server.text


def test_versions_by_policy(serve, repository):
    repository.add("m", "version_policy { all {} }", versions=(1, 3, 10))
    (repository.path / "m" / "01").mkdir()
    server = serve(repository.flag).started()
    assert "'01' is ignored" in server.text
    assert server.ask("GET", "/v2/models/m").json()["versions"] == ["1", "3", "10"]
    assert server.ask("POST", "/v2/models/m/versions/3/infer", BODY).json()["model_version"] == "3"
    assert server.ask("POST", "/v2/models/m/infer", BODY).json()["model_version"] == "10"
    assert server.ask("POST", "/v2/models/m/versions/7/infer", BODY).status == 404


def test_a_port_that_is_taken(serve, repository):
    repository.add("m")
    with socket.socket() as taken:
        taken.bind(("0.0.0.0", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = serve(repository.flag, f"--http-port={port}", "--grpc-port=0", "--metrics-port=0", ports=False)
        assert server.exit_code() == 1
    assert str(port) in server.text


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ((), "--model-repository must be specified"),
        (("--model-repository=/x", "--htp-port=1"), "did you mean --http-port"),
        (("--model-repository=/x", "--model-control-mode=foo"), "none, explicit, poll"),
        (
            ("--model-repository=/nowhere/at/all", "--http-port=0", "--grpc-port=0", "--metrics-port=0"),
            "/nowhere/at/all",
        ),
    ],
)
def test_what_ends_the_start_with_exit_code_1(flags, message):
    ended = run(*flags)
    assert ended.returncode == 1
    assert message in ended.stderr


def test_help_and_version():
    helped = run("--help")
    assert (helped.returncode, "--model-repository" in helped.stdout) == (0, True)
    version = subprocess.run(
        [sys.executable, "-m", "charonia", "--version"], capture_output=True, text=True, check=True
    )
    assert version.stdout.startswith("charonia ")


def test_a_log_of_json_lines(serve, repository):
    repository.add("m")
    server = serve(repository.flag, "--log-format=json")
    server.wait_for("Started Metrics Service")
    server.signal()
    assert server.exit_code() == 0
    lines = [json.loads(line) for line in server.log]
    assert any("Model" in line["message"] and "READY" in line["message"] for line in lines)


def test_a_log_file(serve, repository, tmp_path):
    repository.add("m")
    repository.add_broken("bad")
    server = serve(repository.flag, f"--log-file={tmp_path}/server.log")
    assert server.exit_code() == 1
    assert "successfully loaded 'm'" in (tmp_path / "server.log").read_text()
    assert server.log == []


def test_what_an_inline_model_says_by_logging_is_in_the_log(serve, tmp_path):
    config = """
        input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 1 ] }
        output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 1 ] }
        parameters { key: "execution" value { string_value: "inline" } }
    """
    code = """
        import logging

        class TritonPythonModel:
            def initialize(self, args):
                logging.getLogger("library").error("two\\nlines")

            def execute(self, requests):
                return []
    """
    write_python_model(tmp_path, "m", config, code)
    server = serve(f"--model-repository={tmp_path}", "--log-format=json").started()
    said = [json.loads(line) for line in server.log if "library" in line]
    assert [(each["level"], each["message"]) for each in said] == [("ERROR", "library: two\nlines")]
