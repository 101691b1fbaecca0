"""What a file really is, by its first bytes: downloads and copies often leave something else under a model's name."""

import zipfile
from pathlib import Path

_LOOKED_AT = 1024
_LFS = b"version https://git-lfs.github.com/spec/"


def stand_in(path: Path) -> tuple[str, str]:
    """What was left in the place of a file, whatever that file is, and what to do; ("", "") when nothing was.

    Raises:
        OSError: it can't be read.
    """
    start = _start(path)
    if not start:
        return "the file is empty", "copy it again"
    if start.startswith(_LFS):
        size = start.partition(b"\nsize ")[2].split()
        real = f" ({int(size[0]):,} bytes)" if size and size[0].isdigit() else ""
        return (
            f"the file is a Git LFS pointer, a few lines of text in place of the real file{real}, which is not there",
            "fetch it where the repository was cloned: git lfs install && git lfs pull",
        )
    if start.lstrip()[:15].lower().startswith((b"<!doctype html", b"<html")):
        return (
            "the file is a web page (HTML): the download got an error or a login page in place of the file",
            "download it again, and look at what comes (curl -fL fails on errors)",
        )
    return "", ""


def impostor(path: Path) -> tuple[str, str]:
    """As `stand_in`; also what other kind of file it is instead of a model.

    Raises:
        OSError: it can't be read.
    """
    what, remedy = stand_in(path)
    if what:
        return what, remedy
    start = _start(path)
    return next(((what, remedy) for says, what, remedy in _KINDS if says(start, path)), ("", ""))


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_LOOKED_AT)


def _is_torchscript(start: bytes, path: Path) -> bool:
    return _is_zip(start, path) and any("/code/" in name for name in _zip_names(path))


def _is_torch_zip(start: bytes, path: Path) -> bool:
    return _is_zip(start, path) and any(name.endswith("data.pkl") for name in _zip_names(path))


def _is_zip(start: bytes, path: Path) -> bool:
    return start.startswith(b"PK\x03\x04")


def _zip_names(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()
    except (zipfile.BadZipFile, OSError):
        return []


def _is_gzip(start: bytes, path: Path) -> bool:
    return start.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"(\xb5/\xfd"))


def _is_tar(start: bytes, path: Path) -> bool:
    return start[257:262] == b"ustar"


def _is_pickle(start: bytes, path: Path) -> bool:
    return start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")


def _is_safetensors(start: bytes, path: Path) -> bool:
    return start[8:9] == b"{" and start[7:8] == b"\0"


def _is_hdf5(start: bytes, path: Path) -> bool:
    return start.startswith(b"\x89HDF\r\n")


def _is_tflite(start: bytes, path: Path) -> bool:
    return start[4:8] == b"TFL3"


def _is_text(start: bytes, path: Path) -> bool:
    try:
        text = start.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.start < len(start) - 4:
            return False
        text = start[: error.start].decode("utf-8")
    return all(character.isprintable() or character in "\t\r\n" for character in text)


_TO_ONNX = "convert it: load it in PyTorch and call torch.onnx.export(model, example_inputs, 'model.onnx')"
_KINDS = (
    (
        _is_torchscript,
        "the file is a TorchScript model (a zip file with code), not an ONNX model",
        f"{_TO_ONNX}; or write a model.py that loads it (backend 'python')",
    ),
    (_is_torch_zip, "the file holds weights that PyTorch saved (torch.save), not an ONNX model", _TO_ONNX),
    (_is_zip, "the file is a zip archive, not a model", "unpack it, and put the model file in its place"),
    (_is_gzip, "the file is compressed, not a model", "unpack it, and put the model file in its place"),
    (_is_tar, "the file is a tar archive, not a model", "unpack it, and put the model file in its place"),
    (_is_pickle, "the file is a Python pickle (perhaps of torch.save or scikit-learn), not an ONNX model", _TO_ONNX),
    (_is_safetensors, "the file holds weights only (safetensors), not an ONNX model", _TO_ONNX),
    (_is_hdf5, "the file is a Keras or HDF5 file, not an ONNX model", "convert it: python -m tf2onnx.convert"),
    (_is_tflite, "the file is a TensorFlow Lite model, not an ONNX model", "convert it: python -m tf2onnx.convert"),
    (_is_text, "the file is plain text, not a model", "put the real model file in its place"),
)
