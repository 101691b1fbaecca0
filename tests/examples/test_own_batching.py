"""A batching strategy beside the model: batches of limited size in bytes."""

import shutil
import zlib
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as httpclient
from click.testing import CliRunner

from charonia.cli.group import group
from tests.models.gated import PATIENCE_S

MODELS = Path(__file__).parents[2] / "examples" / "batching" / "models"
LIMIT = 65536


@pytest.fixture
def started(repository, embedded, monkeypatch):
    """A server whose batcher waits until so many requests are there."""

    def start(count):
        monkeypatch.setenv("TRITONSERVER_DELAY_SCHEDULER", str(count))
        shutil.copytree(MODELS, repository, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        return embedded()

    return start


def files(*sizes):
    """With the four bytes of its length, a file is as large as `sizes` says."""
    return [np.array([[bytes([index]) * (size - 4)]], np.object_) for index, size in enumerate(sizes)]


def batches(server):
    return {batch.batch_size: batch.compute_infer.count for batch in server.model("checksums").statistics().batches}


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ((LIMIT // 2,) * 6, {2: 3}),
        ((LIMIT // 2 + 1,) * 3, {1: 3}),
        ((LIMIT, 4 * LIMIT, 100, 100, LIMIT - 200, 5), {1: 3, 3: 1}),
        ((100,) * 32, {32: 1}),
    ],
)
def test_batches_are_limited_by_bytes(started, sizes, expected):
    server = started(len(sizes))
    sent = files(*sizes)
    futures = [server.model("checksums").submit(FILE=file) for file in sent]
    got = [int(future.result(PATIENCE_S).outputs["CRC32"].numpy()[0, 0]) for future in futures]
    assert got == [zlib.crc32(file[0, 0]) for file in sent]
    assert batches(server) == expected


def test_over_the_wire(started):
    server = started(0)
    with httpclient.InferenceServerClient(f"localhost:{server.ports['http']}") as client:
        tensor = httpclient.InferInput("FILE", [1, 1], "BYTES")
        tensor.set_data_from_numpy(np.array([[b"some bytes"]], np.object_))
        assert client.infer("checksums", [tensor]).as_numpy("CRC32")[0, 0] == zlib.crc32(b"some bytes")


def test_charonia_check_finds_nothing_wrong():
    result = CliRunner().invoke(group, ["check", str(MODELS)])
    assert result.exit_code == 0, result.output


def test_charonia_check_tells_what_is_wrong_and_runs_nothing(tmp_path):
    shutil.copytree(MODELS, tmp_path, dirs_exist_ok=True)
    file = tmp_path / "checksums" / "batching.py"
    file.write_text(file.read_text().replace("def may_join", "raise RuntimeError\n\n    def join"))
    result = CliRunner().invoke(group, ["check", str(tmp_path)])
    assert result.exit_code == 1
    assert "class BatchingStrategy has no method named may_join" in " ".join(result.output.split())
    file.unlink()
    result = CliRunner().invoke(group, ["check", str(tmp_path)])
    assert 'batching_strategy names the file "batching.py", which lies neither in' in " ".join(result.output.split())
