"""Repositories in an S3 server on this machine: the command, and the check, with the real client library."""

import urllib.request
from pathlib import Path

import pytest

from tests.system.conftest import PATIENCE_S, infer_body

boto3 = pytest.importorskip("boto3")
moto_server = pytest.importorskip("moto.server")
pytest.importorskip("s3fs")

KEYS = {
    "AWS_ACCESS_KEY_ID": "an-id-of-tests",
    "AWS_SECRET_ACCESS_KEY": "a-secret-of-tests",
    "AWS_DEFAULT_REGION": "us-east-1",
}


class Bucket:
    """A bucket that folders are uploaded to.

    Attributes:
        address: of its server, as host:port.
    """

    def __init__(self, name: str, address: str) -> None:
        self.name, self.address = name, address
        self._client = boto3.client(
            "s3",
            endpoint_url=f"http://{address}",
            aws_access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
            region_name=KEYS["AWS_DEFAULT_REGION"],
        )
        self._client.create_bucket(Bucket=name)

    def upload(self, folder: Path, to: str = "") -> None:
        for path in sorted(folder.rglob("*")):
            key = f"{to}{path.relative_to(folder)}"
            if path.is_file():
                self._client.put_object(Bucket=self.name, Key=key, Body=path.read_bytes())
            elif not any(path.iterdir()):
                self._client.put_object(Bucket=self.name, Key=f"{key}/", Body=b"")

    def put(self, key: str, content: bytes) -> None:
        self._client.put_object(Bucket=self.name, Key=key, Body=content)


@pytest.fixture
def bucket(monkeypatch, tmp_path):
    server = moto_server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, value in KEYS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("TRITON_AWS_MOUNT_DIRECTORY", str(tmp_path / "mount"))
    (tmp_path / "mount").mkdir()
    yield Bucket("demo-bucket1.0", f"{host}:{port}")
    # What it keeps is the process's.
    urllib.request.urlopen(f"http://{host}:{port}/moto-api/reset", data=b"", timeout=PATIENCE_S).close()
    server.stop()


def mounted(tmp_path):
    return sorted(path.name for path in (tmp_path / "mount").rglob("*") if path.is_dir())


@pytest.mark.parametrize("scheme", ["", "http://"])
def test_models_are_served_from_a_bucket(serve, repository, bucket, tmp_path, scheme):
    repository.add("m", versions=(1, 2))
    (repository.path / "m" / "2" / "data.bin").write_bytes(bytes(300_000))
    bucket.upload(repository.path, "a path/to/")
    server = serve(f"--model-repository=s3://{scheme}{bucket.address}/demo-bucket1.0/a path/to").started()
    assert "downloaded model 'm' version 2" in server.text
    assert server.ask("POST", "/v2/models/m/infer", infer_body(1.5)).json()["outputs"][0]["data"] == [1.5]
    assert "1" not in mounted(tmp_path)
    server.signal()
    assert server.exit_code() == 0
    assert mounted(tmp_path) == []
    assert KEYS["AWS_SECRET_ACCESS_KEY"] not in server.text


def test_explicit_loads_and_unloads(serve, repository, bucket, tmp_path):
    repository.add("m")
    repository.add("n")
    bucket.upload(repository.path)
    server = serve(
        f"--model-repository=s3://{bucket.address}/demo-bucket1.0", "--model-control-mode=explicit"
    ).started()
    assert server.ask("POST", "/v2/repository/index").json() == [{"name": "m"}, {"name": "n"}]
    assert server.ask("POST", "/v2/repository/models/m/load").status == 200
    assert "m" in mounted(tmp_path)
    assert server.ask("POST", "/v2/repository/models/m/unload").status == 200
    server.wait_for("successfully unloaded 'm'")
    assert server.ask("POST", "/v2/repository/models/n/load").status == 200


def test_a_new_version_is_seen_by_polling(serve, repository, bucket):
    repository.add("m")
    bucket.upload(repository.path)
    server = serve(
        f"--model-repository=s3://{bucket.address}/demo-bucket1.0",
        "--model-control-mode=poll",
        "--repository-poll-secs=1",
    ).started()
    bucket.put("m/2/data", b"new")
    server.wait_for("successfully loaded 'm'")
    assert server.ask("GET", "/v2/models/m/versions/2/ready").status == 200


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("{server}/no-such-bucket", "there is no 'no-such-bucket' in this store"),
        ("{server}/demo-bucket1.0/nothing/here", "it does not exist"),
        ("hdfs://namenode/models", "begins with s3://, gs:// or as://"),
    ],
)
def test_starts_that_are_refused(serve, bucket, address, reason):
    server = serve(f"--model-repository={address.format(server=f's3://{bucket.address}')}")
    assert server.exit_code() != 0
    assert reason in server.text
    assert KEYS["AWS_SECRET_ACCESS_KEY"] not in server.text


def test_a_check_of_a_bucket(repository, bucket, capsys):
    from charonia.cli.check import run_check

    repository.add("m")
    repository.add_broken("bad")
    bucket.upload(repository.path)
    assert run_check([f"s3://{bucket.address}/demo-bucket1.0"], [], load=False, as_json=False, strict=False) == 1
    out = capsys.readouterr().out
    assert f"s3://{bucket.address}/demo-bucket1.0/bad/config.pbtxt" in out
    assert "no_such_field" in out
