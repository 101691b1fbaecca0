"""What a model's folder holds, in a form that can be compared: has it changed, and which versions with it?"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b

from charonia.config.model_config import CONFIG_FILE, CUSTOM_CONFIGS
from charonia.repository.files import LOCAL, Entries, Entry, Files
from charonia.repository.strays import is_version

_CONFIGS = (CONFIG_FILE, CUSTOM_CONFIGS)
# Python writes it beside the code when it loads the model: that is no change.
_BYTECODE = "__pycache__"


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """Equal to another one when nothing has changed between the two looks.

    Attributes:
        parts: by the name of each entry of the model's folder, a digest of the names, sizes and modification times of
            all that is in it.
    """

    parts: Mapping[str, bytes] = field(default_factory=dict)

    def same_version(self, other: "Fingerprint", version: int) -> bool:
        """Whether the version would be loaded from the same files. Configurations are compared by what they say."""
        return self._part_for(version) == other._part_for(version)

    def _part_for(self, version: int) -> dict[str, bytes]:
        """The version's folder, and what every version may use: labels, data for the warm-up, modules."""
        return {name: digest for name, digest in self.parts.items() if _is_for(name, version)}


def _is_for(name: str, version: int) -> bool:
    """Whether an entry of the model's folder is for this version, or for all."""
    return name == str(version) or not (name in _CONFIGS or is_version(name))


def files_of_version(model_dir: str | os.PathLike[str], version: int) -> Iterator[tuple[bytes, str]]:
    """The files that the version may use, each with its name in the folder, in an order that depends on these only."""
    for entry in _listing(os.fspath(model_dir), LOCAL):
        if _is_for(entry.name, version):
            for inner, path in _walk(entry, LOCAL):
                if not inner.is_dir():
                    yield os.fsencode(path), inner.path


def fingerprint(model_dir: str | os.PathLike[str], files: Files = LOCAL) -> Fingerprint:
    """Look at everything in the folder. Links are followed, each folder once; hidden files don't count.

    What can't be read counts as such: the fingerprint changes when it can be read.
    """
    parts: dict[str, bytes] = {}
    for entry in _listing(os.fspath(model_dir), files):
        digest = blake2b(digest_size=16)
        for line in _lines(entry, files):
            digest.update(line)
        parts[entry.name] = digest.digest()
    return Fingerprint(parts)


def _lines(top: Entry, files: Files) -> Iterator[bytes]:
    """A line for each file and folder under `top`."""
    for entry, path in _walk(top, files):
        try:
            is_folder, found = entry.is_dir(), entry.stat()
        except OSError as error:
            yield _line(path, "unreadable", error.errno)
        else:
            yield _line(path, "folder", None) if is_folder else _line(path, found.st_size, found.st_mtime_ns)


def _walk(top: Entry, files: Files) -> Iterator[tuple[Entry, str]]:
    """Everything under `top`, by path, in an order that depends on the names only. Folders may be nested any deep."""
    visited: set[tuple[int, int]] = set()
    waiting = [(top, f"/{top.name}")]
    while waiting:
        entry, path = waiting.pop()
        yield entry, path
        identity = _identity_of_folder(entry)
        if identity is not None and identity not in visited:
            visited.add(identity)
            waiting += [(inner, f"{path}/{inner.name}") for inner in reversed(_listing(entry.path, files))]


def _identity_of_folder(entry: Entry) -> tuple[int, int] | None:
    try:
        found = entry.stat() if entry.is_dir() else None
    except OSError:
        return None
    return (found.st_dev, found.st_ino) if found is not None else None


def _line(path: str, what: int | str, more: int | None) -> bytes:
    return os.fsencode(f"{path}\0{what}\0{more}\n")


def _listing(path: str, files: Files) -> Entries:
    try:
        return [entry for entry in files.listing(path) if entry.name != _BYTECODE]
    except OSError:
        return []
