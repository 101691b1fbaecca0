"""`pb_utils.load_model`, `unload_model` and `is_model_ready`."""

from __future__ import annotations

from typing import Any, Callable

from . import arguments
from .errors import TritonModelException
from .runtime import Runtime

_ANY_VERSION = -1


def make_model_control(runtime: Runtime) -> tuple[Callable[..., Any], ...]:
    """The functions for one model."""

    def load_model(model_name: str, config: str = "", files: dict[str, bytes] | None = None) -> None:
        """Load a model, or load it anew; returns when it serves. The server must be in explicit control mode.

        Args:
            config: the configuration to use, as JSON; "" for the model's own.
            files: contents by path in the model's folder, as `file:1/model.py`; then nothing of the folder itself is
                used, and `config` is needed.

        Raises:
            TritonModelException: with the reason.
        """
        name, config = arguments.text("model_name", model_name), arguments.text("config", config)
        _ask(runtime, f"Failed to load model '{name}'", "model.load", name, config or None, _files(name, files))

    def unload_model(model_name: str, unload_dependents: bool = False) -> None:
        """Take a model out of service; what it has accepted is answered afterwards. Raises TritonModelException."""
        name = arguments.text("model_name", model_name)
        dependents = arguments.flag("unload_dependents", unload_dependents)
        _ask(runtime, f"Failed to unload model '{name}'", "model.unload", name, dependents)

    def is_model_ready(model_name: str, model_version: str = "") -> bool:
        """Whether it can serve; False for an unknown model. Raises TritonModelException: the version is no number."""
        name, version = arguments.text("model_name", model_name), arguments.text("model_version", model_version)
        return bool(runtime.call("model.ready", name, _version(version)))

    return load_model, unload_model, is_model_ready


def _ask(runtime: Runtime, failure: str, operation: str, *arguments: Any) -> None:
    try:
        runtime.call(operation, *arguments)
    except TritonModelException as error:
        raise TritonModelException(f"{failure}: {error}") from None


def _files(name: str, files: Any) -> dict[str, bytes]:
    """By path without the prefix."""
    if files is None:
        return {}
    if not isinstance(files, dict):
        raise TritonModelException(
            f"failed to load model '{name}', files should be a dictionary of file paths and file contents, "
            f"got {type(files).__name__}"
        )
    return {_path(key): _content(key, content) for key, content in files.items()}


def _path(key: Any) -> str:
    path = arguments.text("each path in files", key)
    if not path.startswith("file:"):
        raise TritonModelException(f"files: a path must begin with 'file:', as in 'file:1/model.py', got '{path}'")
    return path[len("file:") :]


def _content(key: str, content: Any) -> bytes:
    if not isinstance(content, (bytes, bytearray, memoryview)):
        raise TypeError(f"files: the content of '{key}' must be bytes, got {type(content).__name__}")
    return bytes(content)


def _version(text: str) -> int:
    if not text:
        return _ANY_VERSION
    try:
        version = int(text)
    except ValueError:
        version = -1
    if version < 0:
        raise TritonModelException(
            f"failed to get model version from specified version string '{text}': version should be an integral "
            "value > 0"
        )
    return version
