"""Imports go one way: core <- config <- observe <- scheduling, backends <- pipelines <- engine <- repository, control,
frontend."""

import ast
from pathlib import Path

import pytest

import charonia

ROOT = Path(charonia.__file__).parent

# What each folder may import, beside itself. server.py, api.py, cli and testing may import anything.
ALLOWED = {
    "core": set(),
    "observe": {"core", "config"},
    "config": {"core"},
    "agents": {"core", "config"},
    "scheduling": {"core", "config", "observe"},
    "cache": {"core", "config", "observe", "scheduling", "backends"},
    "backends": {"core", "config", "observe", "options"},
    "pipelines": {"core", "config", "observe", "scheduling", "backends"},
    "engine": {"core", "config", "observe", "scheduling", "backends", "cache", "pipelines"},
    "repository": {"core", "config", "observe", "scheduling", "backends", "cache", "engine", "options", "agents"},
    "memory": {"core", "backends"},
    "control": {"core", "config", "observe", "memory", "options"},
    "frontend": {"core", "config", "observe", "engine", "control", "memory", "options", "_wire"},
}


def imported(path):
    """The second name of every `charonia.x` import of the file, with its line."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("charonia"):
            parts = node.module.split(".")
            names = [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            names = [alias.name.split(".")[1] for alias in node.names if alias.name.startswith("charonia.")]
        else:
            continue
        for name in names:
            yield name, node.lineno


@pytest.mark.parametrize("folder", sorted(ALLOWED))
def test_folder_imports_only_what_stands_below_it(folder):
    wrong = [
        f"{path.relative_to(ROOT)}:{line} imports charonia.{name}"
        for path in (ROOT / folder).rglob("*.py")
        for name, line in imported(path)
        if name not in ALLOWED[folder] | {folder, "__version__"}
    ]
    assert wrong == []


def test_no_code_file_is_outside_the_table():
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    assert folders - {"cli", "testing", "tools"} == set(ALLOWED)
