"""What to say when a version folder does not hold the model's file: what lies there instead, and what to do."""

import os
from pathlib import Path

from charonia.core.errors import NotFoundError

_LISTED = 10


def missing_file(model: str, path: Path, model_dir: Path, version_dir: Path) -> NotFoundError:
    """The error for a model whose file should be at `path`, somewhere below `version_dir`."""
    shown = path.relative_to(version_dir) if path.is_relative_to(version_dir) else path
    missing = f"model '{model}' has no '{shown}' in '{version_dir}'"
    if version_dir.is_dir() and not os.access(version_dir, os.R_OK | os.X_OK):
        remedy = f"open it for the user that the server runs as, for example by chmod a+rx '{version_dir}'"
        return NotFoundError(f"{missing}: the folder can't be read; {remedy}")
    if path.is_symlink():
        target = os.readlink(path)
        return NotFoundError(f"{missing}: it is a link to '{target}', where no file is; put the file there, or here")
    return NotFoundError(f"{missing}: {_contents(version_dir)}; {_advice(path.name, model_dir, version_dir)}")


def _contents(folder: Path) -> str:
    if not folder.is_dir():
        return "there is no such folder"
    names = sorted(entry.name + "/" * entry.is_dir() for entry in folder.iterdir())
    if not names:
        return "the folder is empty"
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"the folder holds {', '.join(names[:_LISTED])}{more}"


def _advice(filename: str, model_dir: Path, version_dir: Path) -> str:
    if (model_dir / filename).is_file():
        return f"'{filename}' lies beside the version folder: move it into '{version_dir.name}/'"
    suffix = Path(filename).suffix.lower()
    alike = sorted(each.name for each in version_dir.glob("*") if each.is_file() and each.suffix.lower() == suffix)
    if alike == [filename]:  # looked for in another folder
        return f'set default_model_filename: "{filename}": it is relative to the version folder'
    if len(alike) == 1:
        return f"rename '{alike[0]}' to '{filename}', or set default_model_filename: \"{alike[0]}\""
    return f"the model file must have the name '{filename}' unless default_model_filename says another"
