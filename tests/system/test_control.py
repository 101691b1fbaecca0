"""The command with models that come, change and go while it runs: by request, and by polling."""

import base64
import json
import shutil

EXPLICIT = "--model-control-mode=explicit"
BODY = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 2], "data": [1.5, 2.5]}]}
CONFIG = {
    "backend": "identity",
    "max_batch_size": 8,
    "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
    "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],
}


def load(server, name, **parameters):
    return server.ask("POST", f"/v2/repository/models/{name}/load", {"parameters": parameters} if parameters else None)


def unload(server, name):
    return server.ask("POST", f"/v2/repository/models/{name}/unload")


def index(server):
    return server.ask("POST", "/v2/repository/index").json()


def test_models_are_loaded_and_unloaded_by_request(serve, repository):
    repository.add("m")
    server = serve(repository.flag, EXPLICIT).started()
    assert index(server) == [{"name": "m"}]
    assert server.ask("GET", "/v2/health/ready").status == 200
    assert load(server, "m").status == 200
    assert index(server) == [{"name": "m", "version": "1", "state": "READY"}]
    assert server.ask("POST", "/v2/models/m/infer", BODY).json()["outputs"][0]["data"] == [1.5, 2.5]
    assert unload(server, "m").status == 200
    server.wait_for("successfully unloaded 'm'")
    assert index(server) == [{"name": "m", "version": "1", "state": "UNAVAILABLE", "reason": "unloaded"}]
    assert server.ask("POST", "/v2/models/m/infer", BODY).status == 404
    assert unload(server, "nobody").status == 200
    assert load(server, "nobody").status == 404
    server.signal()
    assert server.exit_code() == 0


def test_a_failed_load_says_why_each_time_and_the_old_model_serves_on(serve, repository):
    repository.add("m")
    server = serve(repository.flag, EXPLICIT, "--load-model=m").started()
    repository.add_broken("m")
    for _ in range(2):
        answer = load(server, "m")
        assert answer.status == 400
        assert answer.json()["error"].startswith("load failed for model 'm'")
        assert "no_such_field" in answer.json()["error"]
    assert server.ask("GET", "/v2/health/ready").status == 200
    assert server.ask("POST", "/v2/models/m/infer", BODY).status == 200


def test_a_configuration_and_files_in_the_request(serve, repository, tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    repository.add("m")
    server = serve(repository.flag, EXPLICIT).started()
    assert load(server, "m", config=json.dumps(CONFIG)).status == 200
    assert server.ask("GET", "/v2/models/m/config").json()["max_batch_size"] == 8
    content = base64.b64encode(b"content").decode()
    assert load(server, "new", config=json.dumps(CONFIG), **{"file:3/data": content}).status == 200
    (written,) = tmp_path.glob("charonia-overrides-*/*/new/3/data")
    assert written.read_bytes() == b"content"
    assert server.ask("GET", "/v2/models/new").json()["versions"] == ["3"]
    refused = load(server, "new", config=json.dumps(CONFIG), **{"file:../../evil": content})
    assert refused.status == 400
    assert "must stay within model directory" in refused.json()["error"]
    server.signal()
    assert server.exit_code() == 0
    assert list(tmp_path.glob("charonia-overrides-*")) == []


def test_a_load_is_refused_in_the_other_modes(serve, repository):
    repository.add("m")
    for mode in ("none", "poll"):
        server = serve(repository.flag, f"--model-control-mode={mode}").started()
        for answer in (load(server, "m"), unload(server, "m")):
            assert answer.status == 503
            assert "explicit model load / unload is not allowed if polling is enabled" in answer.json()["error"]
        assert server.ask("GET", "/v2/models/m/ready").status == 200
        server.signal()
        assert server.exit_code() == 0


def test_polling_finds_what_comes_changes_and_goes(serve, repository):
    repository.add("m")
    server = serve(repository.flag, "--model-control-mode=poll", "--repository-poll-secs=1").started()
    repository.add_broken("bad")
    repository.add("new")
    server.wait_for("successfully loaded 'new'")
    repository.add("m", "instance_group { count: 2 kind: KIND_CPU }")
    server.wait_for("successfully loaded 'm'")
    assert server.ask("GET", "/v2/models/m/config").json()["instance_group"][0]["count"] == 2
    assert server.ask("GET", "/v2/health/ready").status == 400  # since there is `bad`
    for name in ("new", "bad"):
        shutil.rmtree(repository.path / name)
    server.wait_for("successfully unloaded 'new'")
    assert "new" not in [entry["name"] for entry in index(server)]
    assert server.ask("POST", "/v2/models/new/infer", BODY).status == 404
    server.signal()
    assert server.exit_code() == 0


def test_polling_every_0_seconds_never_looks(serve, repository):
    repository.add("m")
    server = serve(repository.flag, "--model-control-mode=poll", "--repository-poll-secs=0").started()
    server.signal()
    assert server.exit_code() == 0


def test_a_stop_while_a_model_is_loaded_by_request(serve, repository):
    repository.add("m", 'parameters { key: "creation_delay_sec" value { string_value: "2" } }')
    server = serve(repository.flag, EXPLICIT).started()
    connection = server.connect()
    connection.request("POST", "/v2/repository/models/m/load")
    server.wait_for("loading: m:1")
    server.signal()
    assert server.exit_code() == 0
    assert "successfully loaded" not in server.text
    connection.close()


def test_a_batch_that_waits_for_more_requests_does_not_hold_the_stop_up(serve, repository):
    hours = "dynamic_batching { max_queue_delay_microseconds: 7200000000 }"
    repository.add("m", hours)
    server = serve(repository.flag, "--exit-timeout-secs=20").started()
    connection = server.connect()
    connection.request("POST", "/v2/models/m/infer", json.dumps(BODY))
    assert server.ask("GET", "/v2/health/live").status == 200  # the request before has arrived
    server.signal()
    assert connection.getresponse().status == 200
    assert server.exit_code() == 0


def test_a_start_that_fails_without_exit_on_error_stays_up_and_is_not_live(serve, repository):
    repository.add("m")
    server = serve("--model-repository=/nowhere/at/all", repository.flag, "--exit-on-error=false").started()
    assert server.ask("GET", "/v2/health/live").status == 400
    assert server.ask("GET", "/v2/health/ready").status == 400
    assert server.ask("GET", "/v2").status == 200
    server.signal()
    assert server.exit_code() == 0
    assert "/nowhere/at/all" in server.text


def test_the_name_of_the_server(serve, repository):
    repository.add("m")
    server = serve(repository.flag, "--id=left").started()
    assert server.ask("GET", "/v2").json()["name"] == "left"


BACKEND = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse(
                [pb_utils.Tensor("OUTPUT0", 2 * pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy())]
            )
            for request in requests
        ]
"""


def test_the_backend_directory_and_retries(serve, repository, tmp_path):
    (tmp_path / "backends" / "doubling").mkdir(parents=True)
    (tmp_path / "backends" / "doubling" / "model.py").write_text(BACKEND)
    repository.add("m")
    config = repository.path / "m" / "config.pbtxt"
    config.write_text(config.read_text().replace("identity", "doubling"))
    server = serve(repository.flag, f"--backend-directory={tmp_path}/backends").started()
    assert server.ask("POST", "/v2/models/m/infer", BODY).json()["outputs"][0]["data"] == [3.0, 5.0]


FAILS_ONCE = """
import os


class TritonPythonModel:
    def initialize(self, args):
        once = os.path.join(args["model_repository"], "tried")
        if not os.path.exists(once):
            open(once, "w").close()
            raise RuntimeError("not the first time")

    def execute(self, requests):
        return []
"""


def test_a_failed_load_is_tried_again_as_often_as_the_flag_says(serve, repository):
    repository.add("m")
    config = repository.path / "m" / "config.pbtxt"
    config.write_text(config.read_text().replace("identity", "python"))
    (repository.path / "m" / "1" / "model.py").write_text(FAILS_ONCE)
    server = serve(repository.flag, "--model-load-retry-count=1").started()
    assert "trying again: " in server.text
    assert server.ask("GET", "/v2/models/m/ready").status == 200
