"""Turning ONNX Runtime's load failures into sentences that say what to do."""

import re
from collections.abc import Callable
from importlib import metadata
from pathlib import Path

from charonia.backends.onnxruntime.broken import why_broken
from charonia.backends.onnxruntime.runtime import installed_packages
from charonia.core.errors import BackendError, CharoniaError, InvalidArgumentError

# ONNX Runtime writes the place in its own sources before the message, and its status before that.
_STATUS = re.compile(r"^\[ONNXRuntimeError\] : \d+ : \w+ : ")
_SOURCE_PLACE = re.compile(r"/onnxruntime_src/\S+?:\d+ .*?\)(?: const)? ")

_EXTERNAL_MISSING = re.compile(r"External data path (?:does not exist|validation failed).*?\"([^\"]+)\"", re.S)
_EXTERNAL_SHORT = re.compile(r"External initializer: (\S+) offset.*(?:out of bounds|can not be read)", re.S)
_OPSET = re.compile(r"Opset (\d+) is under development.*official support for domain (\S+) is till opset (\d+)", re.S)
_IR = re.compile(r"Unsupported model IR version: (\d+), max supported IR version: (\d+)")
_OPERATOR = re.compile(r"(?:No Op registered for|is not a registered function/op) ?(\w*)")
_BROKEN = re.compile(r"Protobuf parsing failed|No graph was found in the protobuf|INVALID_PROTOBUF")


def clean(error: BaseException) -> str:
    """ONNX Runtime's own words, without its status prefix and the places in its sources."""
    return _SOURCE_PLACE.sub("", _STATUS.sub("", str(error))).strip().rstrip(".")


def load_error(error: Exception, model: str, path: Path) -> CharoniaError:
    """The error to raise for a session that could not be made from `path`."""
    text = str(error)
    head = f"model '{model}': ONNX Runtime can't load '{path}'"
    for pattern, describe in _CASES:
        match = pattern.search(text)
        if match:
            return InvalidArgumentError(f"{head}: {describe(match, path)}")
    return BackendError(f"{head}: {clean(error)}")


def _version() -> str:
    """` 1.20.0`, or nothing when no package of it is known."""
    return next((f" {metadata.version(name)}" for name in installed_packages()), "")


def _missing_weights(match: re.Match[str], path: Path) -> str:
    name = Path(match[1]).name
    return (
        f"its weights are stored beside it in '{name}', which is missing: copy '{name}' into '{path.parent.name}/', "
        "next to the model file"
    )


def _short_weights(match: re.Match[str], path: Path) -> str:
    return (
        f"the file with the weights of '{match[1]}' is shorter than the model says: it was cut off, "
        "or belongs to another export of the model"
    )


def _new_opset(match: re.Match[str], path: Path) -> str:
    return (
        f"it uses opset {match[1]} of {match[2]}, the installed ONNX Runtime{_version()} knows opsets up to "
        f"{match[3]}: pip install --upgrade onnxruntime, or export the model with opset {match[3]} or older"
    )


def _new_format(match: re.Match[str], path: Path) -> str:
    return (
        f"its format is IR version {match[1]}, the installed ONNX Runtime{_version()} reads versions up to {match[2]}: "
        "pip install --upgrade onnxruntime, or export the model anew with an older onnx package"
    )


def _unknown_operator(match: re.Match[str], path: Path) -> str:
    name = f"operator '{match[1]}'" if match[1] else "an operator"
    return (
        f"it uses {name} that ONNX Runtime does not have; for operators of your own name their library in "
        f"model_operations.op_library_filename ({clean(ValueError(match.string))})"
    )


def _broken_file(match: re.Match[str], path: Path) -> str:
    try:
        return "; ".join(why_broken(path))
    except OSError as error:
        return f"the file can't be read: {error.strerror or error}"


_CASES: tuple[tuple[re.Pattern[str], Callable[[re.Match[str], Path], str]], ...] = (
    (_EXTERNAL_MISSING, _missing_weights),
    (_EXTERNAL_SHORT, _short_weights),
    (_OPSET, _new_opset),
    (_IR, _new_format),
    (_OPERATOR, _unknown_operator),
    (_BROKEN, _broken_file),
)
