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
from charonia.core.model_id import ModelId
from charonia.repository import strays
from charonia.repository.files import LOCAL, Entries, Entry, Files
from charonia.repository.repositories import repository_paths
from charonia.repository.strays import is_version, warning


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model folder.

    Attributes:
        name: the model's, which is the folder's unless `renamed`.
        path: the model folder, once it is in the file system; repository: what it lies in, as the user wrote it.
        versions: numbers of its version folders, ascending.
        warnings: what in it will not be used, and why.
        misplaced: why it can't be a model: its repository is no repository; None for nearly every one.
        namespace: see `ModelId`.
        renamed: whether whoever added the repository has given the model a name of its own.
    """

    name: str
    path: Path
    repository: str
    versions: tuple[int, ...]
    warnings: tuple[Finding, ...] = ()
    misplaced: Finding | None = None
    namespace: str = ""
    renamed: bool = False

    @property
    def id(self) -> ModelId:
        return ModelId(self.name, self.namespace)


@dataclass(frozen=True, slots=True)
class Scan:
    """All repositories together.

    Attributes:
        models: by id, ascending; each is in exactly one repository.
        duplicates: names that are in several, with those repositories; they can't be served without namespaces.
        warnings: what lies in a repository and is no model.
    """

    models: dict[ModelId, FoundModel]
    duplicates: dict[ModelId, tuple[str, ...]]
    warnings: tuple[Finding, ...] = ()


def scan(repositories: Sequence[str], files: Files = LOCAL, *, namespacing: bool = False) -> Scan:
    """Look through all repositories. A repository that is named twice counts once.

    Args:
        namespacing: whether each repository is a namespace of its own.

    Raises:
        InvalidArgumentError: a repository that is no folder, or can't be read.
    """
    found: dict[ModelId, list[FoundModel]] = {}
    warnings: list[Finding] = []
    for repository in repository_paths(repositories):
        usable, unusable = _sorted_out(repository, "model repository folder", files)
        misplaced = strays.why_no_repository(repository, usable, files)
        warnings += [*unusable, *strays.in_repository(repository, usable, misplaced)]
        for entry in usable:
            if entry.is_dir():
                model = _look_or_warn(entry.path, repository, files)
                model = replace(model, namespace=repository if namespacing else "")
                found.setdefault(model.id, []).append(_without_place(model, misplaced))
    return Scan(
        models={model: places[0] for model, places in sorted(found.items()) if len(places) == 1},
        duplicates={m: tuple(p.repository for p in places) for m, places in sorted(found.items()) if len(places) > 1},
        warnings=tuple(warnings),
    )


def look_at(path: str | os.PathLike[str], repository: str, files: Files = LOCAL) -> FoundModel:
    """One model folder.

    Raises:
        InvalidArgumentError: it can't be read.
    """
    where = os.fspath(path)
    usable, unusable = _sorted_out(where, "the model's folder", files)
    versions = sorted(int(entry.name) for entry in usable if is_version(entry.name) and entry.is_dir())
    warnings = (*unusable, *strays.in_model(where, usable, files))
    return FoundModel(os.path.basename(where), Path(where), repository, tuple(versions), warnings)


def _without_place(model: FoundModel, misplaced: Finding | None) -> FoundModel:
    """In the folder of one model given as the repository, its version folders look like models without versions."""
    return replace(model, misplaced=misplaced) if misplaced is not None and not model.versions else model


def _look_or_warn(path: str, repository: str, files: Files) -> FoundModel:
    """A folder that can't be read is a model without versions: the others are not touched by it."""
    try:
        return look_at(path, repository, files)
    except InvalidArgumentError as error:
        return FoundModel(os.path.basename(path), Path(path), repository, (), (warning(path, str(error)),))


def _sorted_out(folder: str, what: str, files: Files) -> tuple[list[Entry], list[Finding]]:
    """What a folder holds, and what of it can't be used. One bad entry does not keep the others from being served."""
    usable: list[Entry] = []
    findings: list[Finding] = []
    for entry in _entries(folder, what, files):
        reason = _why_unusable(entry)
        if reason:
            findings.append(warning(entry.path, f"this is ignored: {reason}"))
        else:
            usable.append(entry)
    return usable, findings


def _entries(path: str, what: str, files: Files) -> Entries:
    """What a folder holds, hidden things left out, sorted by name."""
    try:
        return files.listing(path)
    except NotADirectoryError:
        reason = "it is a file; a repository is a folder with a folder for each model"
    except FileNotFoundError:
        reason = "it does not exist"
    except PermissionError as error:
        reason = f"{error.strerror} for the user that the server runs as (it needs r and x on folders, r on files)"
    except OSError as error:
        reason = error.strerror or str(error)
    raise InvalidArgumentError(f"{what} '{path}' can't be read: {reason}")


def _why_unusable(entry: Entry) -> str:
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
