"""Imports a model's file in its own process as Triton does: as module `<version>.<file>`, its folders on sys.path."""

from __future__ import annotations

import importlib.util
import os
import sys
from types import ModuleType
from typing import Any

from .errors import ModelFailure
from .failures import describe


def load_model_file(path: str, package: str, folders: list[str]) -> Any:
    """Run the file and give its module.

    Args:
        package: the version as text: `from . import helper` finds files beside the model.
        folders: become importable, before installed packages and after the standard library.

    Raises:
        ModelFailure: the file is missing, or running it failed.
    """
    if not os.path.isfile(path):
        raise ModelFailure(f"the model file {path} does not exist")
    at = _end_of_standard_library()
    sys.path[at:at] = [folder for folder in folders if folder not in sys.path]
    parent = ModuleType(package)
    parent.__path__ = [os.path.dirname(path)]
    sys.modules[package] = parent
    name = f"{package}.{os.path.splitext(os.path.basename(path))[0]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ModelFailure(f"the model file {path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException as error:
        raise ModelFailure(f"importing {path} failed: {describe(error)}") from None
    return module


def _end_of_standard_library() -> int:
    for index, folder in enumerate(sys.path):
        if folder.endswith(("site-packages", "dist-packages")):
            return index
    return len(sys.path)
