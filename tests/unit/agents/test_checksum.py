"""The agent `checksum`: which files it lets pass, and what it says of the others."""

import hashlib
from pathlib import Path

import pytest

from charonia.agents.base import AgentModel
from charonia.agents.checksum import ChecksumAgent
from charonia.core.errors import InvalidArgumentError, UnsupportedError

CONTENT = b"weights"
DIGESTS = {name: hashlib.new(name, CONTENT).hexdigest() for name in ("md5", "sha256", "sha512")}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "m" / "1").mkdir(parents=True)
    (tmp_path / "m" / "1" / "model.onnx").write_bytes(CONTENT)
    (tmp_path / "secret").write_bytes(CONTENT)
    return tmp_path / "m"


def check(folder: Path, key: str, value: str) -> None:
    ChecksumAgent().load(AgentModel("m", {key: value}, folder, None, lambda: folder))


@pytest.mark.parametrize("algorithm", ["MD5", "md5", "SHA256", "Sha512"])
def test_the_right_digest(folder: Path, algorithm: str) -> None:
    check(folder, f"{algorithm}:1/model.onnx", DIGESTS[algorithm.lower()])
    check(folder, f"{algorithm}:1/../1/model.onnx", DIGESTS[algorithm.lower()].upper())


def test_no_parameters_no_objection(folder: Path) -> None:
    ChecksumAgent().load(AgentModel("m", {}, folder, None, lambda: folder))


@pytest.mark.parametrize("algorithm", ["MD5", "SHA256", "SHA512"])
def test_the_wrong_digest_says_both(folder: Path, algorithm: str) -> None:
    got = DIGESTS[algorithm.lower()]
    with pytest.raises(InvalidArgumentError) as refused:
        check(folder, f"{algorithm}:1/model.onnx", "0" * len(got))
    assert f"Mismatched {algorithm} hash for file 1/model.onnx, expect: {'0' * len(got)}, got: {got}" in str(
        refused.value
    )


def test_one_wrong_file_of_several(folder: Path) -> None:
    parameters = {"MD5:1/model.onnx": DIGESTS["md5"], "SHA256:1/model.onnx": DIGESTS["md5"]}
    with pytest.raises(InvalidArgumentError, match="SHA256"):
        ChecksumAgent().load(AgentModel("m", parameters, folder, None, lambda: folder))


@pytest.mark.parametrize(
    ("key", "error", "phrase"),
    [
        ("MD5:2/model.onnx", InvalidArgumentError, "can't read the file 2/model.onnx.*No such file"),
        ("MD5:1", InvalidArgumentError, "can't read the file 1.*[Dd]irectory"),
        ("MD5:../secret", InvalidArgumentError, "'../secret': expected a path in the model's folder"),
        ("MD5:1/../../secret", InvalidArgumentError, "expected a path in the model's folder"),
        ("MD5:/etc/passwd", InvalidArgumentError, "expected a path in the model's folder"),
        ("MD5", InvalidArgumentError, "failed to parse key: the parameter 'MD5'.*ALGORITHM:FILE"),
        ("MD5:", InvalidArgumentError, "failed to parse key"),
        ("CRC:1/model.onnx", UnsupportedError, "Unsupported checksum algorithm: 'CRC'.*MD5, SHA256, SHA512"),
    ],
)
def test_parameters_that_say_nothing_right(folder: Path, key: str, error: type[Exception], phrase: str) -> None:
    with pytest.raises(error, match=phrase):
        check(folder, key, DIGESTS["md5"])
