"""Modules that a model's file imports, and which of them its interpreter does not have."""

import ast
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.machinery import PathFinder
from pathlib import Path

from charonia.backends.python.child.internals import INTERNAL_NAME
from charonia.backends.python.child.pb_utils import MODULE_NAME
from charonia.backends.python.environment import Environment
from charonia.backends.python.launch import process_environment
from charonia.backends.python.source import Source
from charonia.config.findings import Finding

_PROVIDED = frozenset((MODULE_NAME, INTERNAL_NAME))
# Where the package to install is not called as the module.
_PACKAGES = {
    "cv2": "opencv-python-headless",
    "PIL": "pillow",
    "sklearn": "scikit-learn",
    "skimage": "scikit-image",
    "yaml": "pyyaml",
    "bs4": "beautifulsoup4",
    "dateutil": "python-dateutil",
    "google": "protobuf",
    "sentence_transformers": "sentence-transformers",
    "whisper": "openai-whisper",
    "faiss": "faiss-cpu",
    "Crypto": "pycryptodome",
    "fitz": "pymupdf",
}
_ASK = (
    "import importlib.util, json, sys\n"
    "found = lambda name: name in sys.builtin_module_names or importlib.util.find_spec(name) is not None\n"
    "print(json.dumps([name for name in json.loads(sys.argv[1]) if not found(name)]))"
)
_ASK_S = 30.0


@dataclass(frozen=True, slots=True)
class Import:
    """An import of a top-level module; `at_load` when it runs as the model loads, not only in a later call."""

    name: str
    node: ast.stmt
    at_load: bool


def imports_of(source: Source) -> list[Import]:
    """The first import of each module that has to succeed: not those in a `try` or under an `if`."""
    found: dict[str, Import] = {}
    for each in _imports(source.tree.body, at_load=True):
        earlier = found.get(each.name)
        if earlier is None or (each.at_load and not earlier.at_load):
            found[each.name] = each
    return list(found.values())


def _imports(body: Sequence[ast.stmt], *, at_load: bool) -> Iterator[Import]:
    for node in body:
        if isinstance(node, ast.Import):
            yield from (Import(alias.name.partition(".")[0], node, at_load) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield Import(node.module.partition(".")[0], node, at_load)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _imports(node.body, at_load=at_load and node.name == "initialize")
        elif isinstance(node, ast.ClassDef | ast.With | ast.For | ast.While):
            yield from _imports(node.body, at_load=at_load)


def check_imports(
    source: Source, folders: Sequence[Path], environment: Environment, interpreter_is_own: bool
) -> Iterator[Finding]:
    """
    Args:
        folders: where the model's own modules lie.
        environment: whose interpreter runs the model.
    """
    wanted = [each for each in imports_of(source) if each.name not in _PROVIDED and not _lies_in(each.name, folders)]
    names = [each.name for each in wanted]
    missing = _missing_here(names) if interpreter_is_own else _missing_in(environment, names)
    for each in wanted:
        if each.name in missing:
            package = _PACKAGES.get(each.name, each.name.replace("_", "-"))
            message = f"the module '{each.name}' is not installed for {environment.interpreter}, which runs the model"
            remedy = f"{environment.interpreter} -m pip install {package}"
            if each.name.lower() in ("utils", "helpers", "helper", "common", "src", "lib"):
                remedy = f"put '{each.name}.py' into '{source.path.parent}'"
            finding = (source.error if each.at_load else source.warning)(each.node, message, remedy)
            yield replace(finding, cause=f"No module named '{each.name}'")


def _lies_in(name: str, folders: Sequence[Path]) -> bool:
    return PathFinder.find_spec(name, [str(folder) for folder in folders]) is not None


def _missing_here(names: Sequence[str]) -> set[str]:
    return {name for name in names if name not in sys.stdlib_module_names and not _found(name)}


def _found(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return name in sys.modules


def _missing_in(environment: Environment, names: Sequence[str]) -> set[str]:
    """Ask the interpreter itself. One that does not answer is told of when the model is loaded."""
    variables = process_environment(environment, 1, os.environ)
    command = [environment.interpreter, "-c", _ASK, json.dumps(list(names))]
    try:
        answer = subprocess.run(command, env=variables, capture_output=True, timeout=_ASK_S, check=True).stdout
        return set(json.loads(answer))
    except (OSError, subprocess.SubprocessError, ValueError):
        return set()
