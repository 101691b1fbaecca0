"""Writes small models into a repository."""

from pathlib import Path
from textwrap import dedent


def write_config(repository: Path, name: str, config: str) -> Path:
    """`<repository>/<name>/config.pbtxt`; returns the model's folder."""
    folder = repository / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.pbtxt").write_text(dedent(config))
    return folder


def write_python_model(repository: Path, name: str, config: str, code: str, version: int = 1) -> Path:
    """A Python model with its configuration; `code` may be indented."""
    folder = write_config(repository, name, 'backend: "python"\n' + dedent(config)) / str(version)
    folder.mkdir(exist_ok=True)
    (folder / "model.py").write_text(dedent(code))
    return folder
