"""What lies in a model's folder, and why it does not tell which backend serves the model."""

import os
from dataclasses import dataclass
from pathlib import Path

from charonia.config.platforms import RULES, known_filenames


@dataclass(frozen=True, slots=True)
class Layout:
    """A model's folder.

    Attributes:
        path: the folder.
        version: the name of the first version folder, "" without one.
        files, folders: what lies in that version folder, sorted.
        beside: files that lie beside the version folders, sorted.
    """

    path: Path
    version: str = ""
    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


def read_layout(model_dir: Path) -> Layout:
    """Look into `model_dir` and its first version folder. A folder that can't be read counts as empty."""
    files, folders = _entries(model_dir)
    versions = sorted((name for name in folders if name.isascii() and name.isdigit()), key=int)
    if not versions:
        return Layout(model_dir, beside=files)
    return Layout(model_dir, versions[0], *_entries(model_dir / versions[0]), beside=files)


def _entries(folder: Path) -> tuple[tuple[str, ...], tuple[str, ...]]:
    try:
        with os.scandir(folder) as entries:
            shown = sorted((entry for entry in entries if not entry.name.startswith(".")), key=lambda e: e.name)
    except OSError:
        return (), ()
    # Not `entry.is_dir()`, which raises for a link that leads in a circle.
    folders = {entry.name for entry in shown if os.path.isdir(entry.path)}
    return tuple(e.name for e in shown if e.name not in folders), tuple(e.name for e in shown if e.name in folders)


def explain_no_backend(name: str, layout: Layout) -> tuple[str, str]:
    """Message and remedy for a model of which nothing tells the backend."""
    message = (
        f"nothing tells which backend serves model '{name}': there is no 'backend' and no 'platform' in its config"
    )
    known = known_filenames()
    beside = [each for each in layout.beside if each in known]
    if not layout.version:
        where = f"move '{beside[0]}' into it" if beside else "put the model file into it"
        return f"{message}, and no version folder", f"make the folder '{name}/1' and {where}"
    shown = f"{name}/{layout.version}"
    if beside:
        return message, f"'{beside[0]}' lies beside the version folder: move it to '{shown}/{beside[0]}'"
    for rule in RULES:
        alike = [each for each in (*layout.files, *layout.folders) if each.endswith(rule.suffix)]
        if len(alike) == 1 and rule.filename not in alike:
            rename = f"rename '{shown}/{alike[0]}' to '{rule.filename}'"
            return message, f"{rename}, or write a config.pbtxt with {_both(rule.backend, alike[0])}"
    folder = layout.path / layout.version
    if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK):
        remedy = f"make it readable for the user that the server runs as, for example by chmod a+rx '{folder}'"
        return f"{message}, and '{shown}' can't be read", remedy
    held = _listed([*layout.files, *layout.folders]) if layout.files or layout.folders else "nothing"
    return (
        f"{message}, and '{shown}' holds {held}",
        f'name the model file as one of {", ".join(known)}, or set backend: "…" in config.pbtxt',
    )


def _both(backend: str, filename: str) -> str:
    return f'backend: "{backend}" default_model_filename: "{filename}"'


def _listed(names: list[str]) -> str:
    shown = ", ".join(f"'{name}'" for name in names[:6])
    return f"{shown} and {len(names) - 6} more" if len(names) > 6 else shown
