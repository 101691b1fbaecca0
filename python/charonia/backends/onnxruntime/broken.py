"""What is wrong with a file that is no complete ONNX model."""

from pathlib import Path

from charonia.backends.file_kinds import impostor
from charonia.backends.onnxruntime.header import read_header
from charonia.backends.onnxruntime.protobuf import Malformed

_IR_VERSION = b"\x08"
"""What every model begins with: the field `ir_version`."""


def why_broken(path: Path) -> tuple[str, str]:
    """What the file is instead, or how much of it is missing; and what to do. Raises OSError."""
    what, remedy = impostor(path)
    if what:
        return what, remedy
    size, needs = path.stat().st_size, _needed_bytes(path)
    if needs > size:
        return (
            f"the file was cut off: it has {size:,} bytes, and says itself that it needs {needs:,} or more",
            "copy or download it again",
        )
    return f"the file ({size:,} bytes) is no ONNX model, or was damaged when it was copied", "copy it again"


def _needed_bytes(path: Path) -> int:
    """0 when the file does not say so, or does not look like a model at all."""
    with path.open("rb") as file:
        if file.read(1) != _IR_VERSION:
            return 0
    try:
        read_header(path)
    except Malformed as malformed:
        return malformed.needs
    return 0
