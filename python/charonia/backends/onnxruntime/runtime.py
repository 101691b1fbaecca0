"""The ONNX Runtime package: there, missing, or installed twice."""

import importlib
from importlib import metadata
from typing import Any

from charonia.core.errors import UnavailableError
from charonia.core.log import Log

# Each of these brings the module `onnxruntime`; files of one replace those of another.
PACKAGES = ("onnxruntime", "onnxruntime-gpu", "onnxruntime-openvino", "onnxruntime-directml", "onnxruntime-training")

Module = Any
"""The module onnxruntime, which has no type information of its own."""


def load_runtime() -> Module:
    """The module.

    Raises:
        UnavailableError: it can't be imported; the message has the command that installs it.
    """
    try:
        return importlib.import_module("onnxruntime")
    except ImportError as error:
        raise UnavailableError(_why_missing(error)) from error


def _why_missing(error: ImportError) -> str:
    installed = installed_packages()
    if not installed:
        return (
            "backend onnxruntime needs the package onnxruntime, which is not installed: "
            "pip install 'charonia[cpu]', or for NVIDIA GPUs pip install 'charonia[gpu]'"
        )
    again = f"pip uninstall -y {' '.join(installed)} && pip install {installed[-1]}"
    return f"backend onnxruntime can't import onnxruntime, though it is installed: {error}; to install it anew: {again}"


def installed_packages() -> list[str]:
    """Which of PACKAGES are installed."""
    return [name for name in PACKAGES if _is_installed(name)]


def _is_installed(name: str) -> bool:
    try:
        metadata.version(name)
    except metadata.PackageNotFoundError:
        return False
    return True


def double_install(installed: list[str]) -> str:
    """What to do about several packages that bring the same module; "" when there is at most one."""
    if len(installed) < 2:
        return ""
    keep = "onnxruntime-gpu" if "onnxruntime-gpu" in installed else installed[-1]
    return (
        f"the packages {' and '.join(installed)} are installed side by side and overwrite one another's files; "
        f"keep one: pip uninstall -y {' '.join(installed)} && pip install {keep}"
    )


def warn_of_double_install(log: Log) -> None:
    """One warning when ONNX Runtime is installed twice: it may work, and is then the wrong one without a word."""
    message = double_install(installed_packages())
    if message:
        log.warning(message)
