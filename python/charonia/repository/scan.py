"""What lies in the repositories: model folders, their version folders, and files in places where nothing looks.

<repository>/<model>/config.pbtxt
<repository>/<model>/<version>/<model file>
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from charonia.config.findings import Finding
from charonia.core.errors import InvalidArgumentError
from charonia.repository import strays
from charonia.repository.repositories import repository_paths
from charonia.repository.strays import is_version, listing, warning


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model folder.

    Attributes:
        name: the folder's name, which is the model's.
        path: the model folder; repository: the folder it lies in, as the user wrote it.
        versions: numbers of its version folders, ascending.
        warnings: what in it will not be used, and why.
        misplaced: why it can't be a model: its repository is no repository; None for nearly every one.
    """

    name: str
    path: Path
    repository: str
    versions: tuple[int, ...]
    warnings: tuple[Finding, ...] = ()
    misplaced: Finding | None = None


@dataclass(frozen=True, slots=True)
class Scan:
    """All repositories together.

    Attributes:
        models: by name; each is in exactly one repository.
        duplicates: names that are in several, with those repositories; they can't be served.
        warnings: what lies in a repository and is no model.
    """

    models: dict[str, FoundModel]
    duplicates: dict[str, tuple[str, ...]]
    warnings: tuple[Finding, ...] = ()


def scan(repositories: Sequence[str]) -> Scan:
    """Look through all repositories. A repository that is named twice counts once.

    Raises:
        InvalidArgumentError: a repository that is no folder, or can't be read.
        UnsupportedError: one that is not in the file system.
    """
    found: dict[str, list[FoundModel]] = {}
    warnings: list[Finding] = []
    for repository in repository_paths(repositories):
        usable, unusable = _sorted_out(repository, "model repository folder")
        misplaced = strays.why_no_repository(repository, usable)
        warnings += [*unusable, *strays.in_repository(repository, usable, misplaced)]
        for entry in usable:
            if entry.is_dir():
                model = _look_or_warn(Path(entry.path), repository)
                found.setdefault(entry.name, []).append(_without_place(model, misplaced))
    return Scan(
        models={name: places[0] for name, places in sorted(found.items()) if len(places) == 1},
        duplicates={n: tuple(p.repository for p in places) for n, places in sorted(found.items()) if len(places) > 1},
        warnings=tuple(warnings),
    )


def look_at(path: Path, repository: str) -> FoundModel:
    """One model folder.

    Raises:
        InvalidArgumentError: it can't be read.
    """
    usable, unusable = _sorted_out(str(path), "the model's folder")
    versions = sorted(int(entry.name) for entry in usable if is_version(entry.name) and entry.is_dir())
    return FoundModel(path.name, path, repository, tuple(versions), (*unusable, *strays.in_model(path, usable)))


def _without_place(model: FoundModel, misplaced: Finding | None) -> FoundModel:
    """In the folder of one model given as the repository, its version folders look like models without versions."""
    return replace(model, misplaced=misplaced) if misplaced is not None and not model.versions else model


def _look_or_warn(path: Path, repository: str) -> FoundModel:
    """A folder that can't be read is a model without versions: the others are not touched by it."""
    try:
        return look_at(path, repository)
    except InvalidArgumentError as error:
        return FoundModel(path.name, path, repository, (), (warning(str(path), str(error)),))


def _sorted_out(folder: str, what: str) -> tuple[list["os.DirEntry[str]"], list[Finding]]:
    """What a folder holds, and what of it can't be used. One bad entry does not keep the others from being served."""
    usable: list[os.DirEntry[str]] = []
    findings: list[Finding] = []
    for entry in _entries(folder, what):
        reason = _why_unusable(entry)
        if reason:
            findings.append(warning(entry.path, f"this is ignored: {reason}"))
        else:
            usable.append(entry)
    return usable, findings


def _entries(path: str, what: str) -> Sequence["os.DirEntry[str]"]:
    """What a folder holds, hidden things left out, sorted by name."""
    try:
        return listing(path)
    except NotADirectoryError:
        reason = "it is a file; a repository is a folder with a folder for each model"
    except FileNotFoundError:
        reason = "it does not exist"
    except PermissionError as error:
        reason = f"{error.strerror} for the user that the server runs as (it needs r and x on folders, r on files)"
    except OSError as error:
        reason = error.strerror or str(error)
    raise InvalidArgumentError(f"{what} '{path}' can't be read: {reason}")


def _why_unusable(entry: "os.DirEntry[str]") -> str:
    """ "" for nearly everything."""
    try:
        is_folder = entry.is_dir()
        entry.name.encode()
        if entry.is_symlink() and not os.path.exists(entry.path):
            return f"it is a link to '{os.readlink(entry.path)}', which does not exist"
    except OSError as error:
        return error.strerror or str(error)
    except UnicodeEncodeError:
        return "the folder's name is not UTF-8 text; rename it" if is_folder else ""
    return ""
