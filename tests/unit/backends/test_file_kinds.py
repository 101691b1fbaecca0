"""What lies under a model's name instead of a model."""

import gzip
import pickle
import zipfile
from pathlib import Path

import pytest

from charonia.backends.file_kinds import impostor, stand_in
from tests.models import onnx_models

LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 102400000\n"


def zipped(*names: str) -> bytes:
    import io

    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return file.getvalue()


KINDS = {
    "nothing": (b"", "empty", "copy it again"),
    "a Git LFS pointer": (LFS.encode(), "Git LFS pointer", "git lfs pull"),
    "a web page": (b"\n <!doctype HTML>\n<html>", "web page", "download it again"),
    "TorchScript": (zipped("net/code/__torch__.py", "net/data.pkl"), "TorchScript", "torch.onnx.export"),
    "torch.save": (zipped("net/data.pkl", "net/data/0"), "torch.save", "torch.onnx.export"),
    "a zip archive": (zipped("densenet/model.onnx"), "zip archive", "unpack it"),
    "gzip": (gzip.compress(b"x"), "compressed", "unpack it"),
    "a pickle": (pickle.dumps([1, 2]), "pickle", "torch.onnx.export"),
    "safetensors": (b"\x40\0\0\0\0\0\0\0" + b'{"w":{}}', "safetensors", "torch.onnx.export"),
    "Keras": (b"\x89HDF\r\n\x1a\n" + bytes(100), "Keras", "tf2onnx"),
    "TensorFlow Lite": (b"\x1c\0\0\0TFL3" + bytes(100), "TensorFlow Lite", "tf2onnx"),
    "text": ("Größe: siehe README\n".encode() * 100, "plain text", "real model file"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_is_named_with_a_remedy(tmp_path: Path, kind: str) -> None:
    data, named, remedy = KINDS[kind]
    path = tmp_path / "model.onnx"
    path.write_bytes(data)
    said = impostor(path)
    assert named in said[0]
    assert remedy in said[1]


def test_the_size_of_the_real_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_text(LFS)
    assert "102,400,000 bytes" in stand_in(tmp_path / "model.onnx")[0]


def test_a_model_is_no_impostor(tmp_path: Path) -> None:
    assert impostor(onnx_models.save(onnx_models.mlp(), tmp_path, "m")) == ("", "")


@pytest.mark.parametrize("kind", ["text", "a pickle", "a zip archive"])
def test_weights_may_be_anything_but_a_stand_in(tmp_path: Path, kind: str) -> None:
    (tmp_path / "weights.bin").write_bytes(KINDS[kind][0])
    assert stand_in(tmp_path / "weights.bin") == ("", "")
