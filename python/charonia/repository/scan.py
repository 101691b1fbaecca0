"""What lies in the repositories: model folders, their version folders, and files in places where nothing looks.

<repository>/<model>/config.pbtxt
<repository>/<model>/<version>/<model file>
"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from charonia.core.errors import InvalidArgumentError

# Folders beside the version folders that have another meaning.
_OTHER_FOLDERS = frozenset({"configs", "warmup", "initial_state"})
_MODEL_SUFFIXES = frozenset({".onnx", ".pt", ".plan", ".savedmodel", ".graphdef", ".xml", ".bin", ".json"})
_MODEL_FILES = frozenset({"model.py", "saved_model.pb"})
_MAX_VERSION = 2**63 - 1


@dataclass(frozen=True, slots=True)
class FoundModel:
    """A model folder.

    Attributes:
        name: the folder's name, which is the model's.
        path: the model folder; repository: the folder it lies in, as the user wrote it.
        versions: numbers of its version folders, ascending.
        warnings: what in it will not be used, and why.
    """

    name: str
    path: Path
    repository: str
    versions: tuple[int, ...]
    warnings: tuple[str, ...] = ()


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
    warnings: tuple[str, ...] = ()


def scan(repositories: Sequence[str]) -> Scan:
    """Look through all repositories. A repository that is named twice counts once.

    Raises:
        InvalidArgumentError: a repository that is no folder, or can't be read.
    """
    found: dict[str, list[FoundModel]] = {}
    warnings: list[str] = []
    for repository in dict.fromkeys(os.path.normpath(each) for each in repositories):
        entries = list(_entries(repository))
        if _is_one_model(entries):
            warnings.append(
                f"'{repository}' looks like the folder of one model; a repository is the folder above it: "
                f"--model-repository={Path(repository).parent}"
            )
        for entry in entries:
            if reason := _why_unusable(entry):
                warnings.append(reason)
            elif entry.is_dir():
                found.setdefault(entry.name, []).append(_look_or_warn(Path(entry.path), repository))
            elif _is_model_file(entry.name):
                warnings.append(
                    f"'{entry.path}' is ignored: a model file belongs into a version folder of a model folder, "
                    f"such as {Path(repository, Path(entry.name).stem, '1', entry.name)}"
                )
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
    versions: list[int] = []
    warnings: list[str] = []
    stray: list[str] = []
    for entry in _entries(str(path)):
        if reason := _why_unusable(entry):
            warnings.append(f"model '{path.name}': {reason}")
        elif not entry.is_dir():
            if _is_model_file(entry.name):
                stray.append(entry.name)
        elif _is_version(entry.name):
            versions.append(int(entry.name))
        elif entry.name not in _OTHER_FOLDERS and (reason := _why_no_version(entry.name)):
            warnings.append(f"model '{path.name}': folder '{entry.name}' is ignored as a version: {reason}")
    if stray and not versions:
        warnings.append(
            f"model '{path.name}': {', '.join(stray)} lies beside the version folders, where nothing looks for it; "
            f"move it into a version folder: {path / '1' / stray[0]}"
        )
    return FoundModel(path.name, path, repository, tuple(sorted(versions)), tuple(warnings))


def _look_or_warn(path: Path, repository: str) -> FoundModel:
    """A folder that can't be read is a model without versions: the others are not touched by it."""
    try:
        return look_at(path, repository)
    except InvalidArgumentError as error:
        return FoundModel(path.name, path, repository, (), (str(error),))


def _entries(path: str) -> Iterable["os.DirEntry[str]"]:
    """What a folder holds, hidden things left out, sorted by name."""
    try:
        with os.scandir(path) as entries:
            return sorted((each for each in entries if not each.name.startswith(".")), key=lambda each: each.name)
    except OSError as error:
        raise InvalidArgumentError(
            f"model repository folder '{path}' can't be read: {error.strerror or error}"
        ) from None


def _why_unusable(entry: "os.DirEntry[str]") -> str:
    """ "" for nearly everything. One bad entry does not keep the others from being served."""
    try:
        is_folder = entry.is_dir()
        entry.name.encode()
    except OSError as error:
        return f"'{entry.path}' is ignored: {error.strerror or error}"
    except UnicodeEncodeError:
        shown = os.fsencode(entry.path).decode(errors="backslashreplace")
        return f"'{shown}' is ignored: its name is not UTF-8 text; rename the folder" if is_folder else ""
    return ""


def _is_one_model(entries: Sequence["os.DirEntry[str]"]) -> bool:
    """The most usual first mistake: a configuration, or version folders with model files, where models should stand."""
    if any(entry.name == "config.pbtxt" for entry in entries):
        return True
    versions = [entry for entry in entries if _is_version(entry.name) and not _why_unusable(entry) and entry.is_dir()]
    try:
        return any(_is_model_file(each.name) for version in versions for each in _entries(version.path))
    except InvalidArgumentError:
        return False


def _is_version(name: str) -> bool:
    return name.isascii() and name.isdigit() and name[0] != "0" and int(name) <= _MAX_VERSION


def _why_no_version(name: str) -> str:
    """ "" for folders that don't look as if they were meant as a version, such as `lib` or `tokenizer`."""
    bare = name.lstrip("vV-_+")
    if not (bare.isascii() and bare.isdigit()):
        return ""
    if name.isdigit() and int(name) > _MAX_VERSION:
        return "the number is too large"
    if name.isdigit():
        return f"a version is a number above 0 without leading zeros, such as '{max(int(name), 1)}'"
    return f"a version is a plain number above 0, such as '{max(int(bare), 1)}'"


def _is_model_file(name: str) -> bool:
    return name in _MODEL_FILES or (Path(name).suffix in _MODEL_SUFFIXES and name.startswith("model."))
