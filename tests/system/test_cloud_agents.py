"""Repository agents on models in an S3 server on this machine: they see the files, whatever is downloaded when."""

import hashlib
import io
import zipfile

import pytest

from tests.system.conftest import infer_body
from tests.system.test_cloud_repositories import bucket, mounted

__all__ = ["bucket"]

UNPACK = """
import zipfile
from charonia.agents import RepositoryAgent

class Agent(RepositoryAgent):
    def load(self, model):
        new = model.acquire_location()
        with zipfile.ZipFile(model.location / "model.zip") as archive:
            archive.extractall(new)
        model.replace_location(new)
"""

REFUSE = """
from charonia.agents import RepositoryAgent

class Agent(RepositoryAgent):
    def load(self, model):
        raise ValueError(f"{model.location}/labels is not to my taste")
"""


def sealed(**files):
    """The lines of a configuration that ask for `checksum`. `files`: contents by path, `/` written as `__`."""
    digests = " ".join(
        f'parameters {{ key: "SHA256:{name.replace("__", "/")}" value: "{hashlib.sha256(content).hexdigest()}" }}'
        for name, content in files.items()
    )
    return f'model_repository_agents {{ agents {{ name: "checksum" {digests} }} }}'


@pytest.fixture
def start(serve, bucket):
    def start(*flags):
        return serve(f"--model-repository=s3://{bucket.address}/demo-bucket1.0", *flags).started()

    return start


def lay_out(repository, bucket, versions=(1, 2)):
    """A model `m` with a file in each version, of which only the last is served, and one that all share."""
    files = {f"v{version}": b"weights %d" % version for version in versions}
    wanted = {f"{version}__data": files[f"v{version}"] for version in versions}
    repository.add("m", sealed(labels=b"a b", **wanted), versions=versions)
    for version in versions:
        (repository.path / "m" / str(version) / "data").write_bytes(files[f"v{version}"])
    (repository.path / "m" / "labels").write_bytes(b"a b")
    bucket.upload(repository.path)


def write_agent(tmp_path, name, code):
    (tmp_path / "agents" / name).mkdir(parents=True)
    (tmp_path / "agents" / name / "agent.py").write_text(code)


def test_files_that_are_right(start, repository, bucket, tmp_path):
    """Those of versions too that are not served."""
    lay_out(repository, bucket)
    server = start("--model-control-mode=explicit")
    assert server.ask("POST", "/v2/repository/models/m/load").status == 200
    assert server.ask("POST", "/v2/models/m/infer", infer_body(1.5)).json()["outputs"][0]["data"] == [1.5]
    assert server.ask("POST", "/v2/repository/models/m/load").status == 200
    assert server.ask("POST", "/v2/repository/models/m/unload").status == 200
    server.wait_for("successfully unloaded 'm' version 2")
    server.signal()
    assert server.exit_code() == 0
    assert mounted(tmp_path) == []


@pytest.mark.parametrize("key", ["m/1/data", "m/2/data", "m/labels"])
def test_a_file_that_is_not(start, repository, bucket, key):
    """What served before serves on; what is put right is loaded."""
    lay_out(repository, bucket)
    server = start("--model-control-mode=explicit", "--load-model=m")
    bucket.put(key, b"forged")
    answer = server.ask("POST", "/v2/repository/models/m/load")
    assert answer.status == 400
    file = key.removeprefix("m/")
    assert f"repository agent 'checksum' refuses model 'm': Mismatched SHA256 hash for file {file}" in answer.text
    assert server.ask("POST", "/v2/models/m/infer", infer_body(1.5)).status == 200
    bucket.upload(repository.path)
    assert server.ask("POST", "/v2/repository/models/m/load").status == 200


def test_a_file_that_is_not_at_the_start(serve, repository, bucket, tmp_path):
    lay_out(repository, bucket)
    bucket.put("m/2/data", b"forged")
    server = serve(f"--model-repository=s3://{bucket.address}/demo-bucket1.0", "--exit-on-error=false").started()
    (entry,) = server.ask("POST", "/v2/repository/index").json()
    assert (entry["state"], "Mismatched SHA256 hash for file 2/data" in entry["reason"]) == ("UNAVAILABLE", True)
    assert "m" not in mounted(tmp_path)


def test_polling_asks_them_only_of_what_has_changed(start, repository, bucket):
    lay_out(repository, bucket)
    server = start("--model-control-mode=poll", "--repository-poll-secs=1")
    bucket.put("m/2/data", b"forged")
    server.wait_for("failed to load 'm'.*Mismatched SHA256 hash for file 2/data")
    bucket.put("m/2/data", b"weights 2")
    server.wait_for("successfully loaded 'm'")
    assert server.ask("POST", "/v2/models/m/infer", infer_body(1.5)).status == 200
    assert server.text.count("Mismatched") == 1


def test_a_model_that_an_agent_unpacks(start, repository, bucket, tmp_path, monkeypatch):
    """It lies in the bucket as an archive, with the configuration that asks for the agent, and no version."""
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    write_agent(tmp_path, "unpack", UNPACK)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for version in (1, 3):
            archive.writestr(f"{version}/data", b"weights")
    (repository.path / "m").mkdir()
    repository.add("m", 'model_repository_agents { agents { name: "unpack" } }', versions=())
    (repository.path / "m" / "model.zip").write_bytes(packed.getvalue())
    bucket.upload(repository.path)
    server = start("--model-control-mode=explicit", "--load-model=m", f"--repoagent-directory={tmp_path / 'agents'}")
    answer = server.ask("POST", "/v2/models/m/infer", infer_body(1.5)).json()
    assert (answer["model_version"], answer["outputs"][0]["data"]) == ("3", [1.5])
    assert server.ask("POST", "/v2/repository/models/m/unload").status == 200
    server.wait_for("successfully unloaded 'm' version 3")
    server.signal()
    assert server.exit_code() == 0
    assert mounted(tmp_path) == []
    assert list((tmp_path / "temporary").iterdir()) == []


def test_a_refusal_tells_where_the_user_knows_the_files(start, repository, bucket, tmp_path):
    write_agent(tmp_path, "refuse", REFUSE)
    repository.add("m", 'model_repository_agents { agents { name: "refuse" } }')
    (repository.path / "m" / "labels").touch()
    bucket.upload(repository.path)
    server = start("--model-control-mode=explicit", f"--repoagent-directory={tmp_path / 'agents'}")
    answer = server.ask("POST", "/v2/repository/models/m/load")
    assert f"s3://{bucket.address}/demo-bucket1.0/m/labels is not to my taste" in answer.text
    assert "m" not in mounted(tmp_path)


def test_a_check_compares_what_a_load_would(repository, bucket, capsys):
    from charonia.cli.check import run_check

    def check():
        code = run_check([f"s3://{bucket.address}/demo-bucket1.0"], [], load=False, as_json=False, strict=False)
        return code, capsys.readouterr().out

    lay_out(repository, bucket)
    assert check()[0] == 0, check()[1]
    bucket.put("m/1/data", b"forged")
    code, out = check()
    assert (code, "Mismatched SHA256 hash for file 1/data" in out) == (1, True)
