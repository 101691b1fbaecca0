"""From the models of the rows to model folders: most differ by their configuration alone and share one model.py."""

import shutil
from pathlib import Path

from tests.facts.rows import HERE

_ECHO = HERE / "echo_model.py"
_VERSIONS = "VERSIONS"


def lay_out(model: Path, target: Path) -> None:
    """Copy a model. One without version folders gets those that its file VERSIONS names, "1" without that file.

    In each of them is the model.py that lies beside VERSIONS, or the one beside the model, or the one that echoes.
    """
    shutil.copytree(model, target)
    if any(entry.name.isdigit() for entry in target.iterdir()):
        return
    shared = model.parent / "model.py"
    default = shared if shared.exists() else _ECHO
    code, versions = _taken(target / "model.py", default.read_text()), _taken(target / _VERSIONS, "1")
    for version in versions.split():
        (target / version).mkdir()
        (target / version / "model.py").write_text(code)


def _taken(file: Path, default: str) -> str:
    """What the file says, which is none of the model's."""
    if not file.exists():
        return default
    text = file.read_text()
    file.unlink()
    return text
