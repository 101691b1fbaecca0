"""The objects of a listing as folders and files, which the scanner looks at like any other."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from charonia.config.findings import Finding
from charonia.repository.files import Entries, Entry
from charonia.repository.remote.stores import StoredObject
from charonia.repository.strays import warning

_MAX_NAME_BYTES = 255
_MAX_PATH_BYTES, _MAX_PATH_PARTS = 1024, 64


class _Stat(NamedTuple):
    """See `files.Stat`. The time is a number that is another one when the object is another one."""

    st_size: int
    st_mtime_ns: int
    st_dev: int
    st_ino: int


class RemoteEntry:
    """See `files.Entry`."""

    def __init__(self, name: str, path: str, number: int, stored: StoredObject | None) -> None:
        """`stored` is None for a folder."""
        self.name = name
        self.path = path
        self._number = number
        self._stored = stored

    def is_dir(self) -> bool:
        return self._stored is None

    def is_file(self) -> bool:
        return self._stored is not None

    def is_symlink(self) -> bool:
        return False

    def stat(self) -> _Stat:
        if self._stored is None:
            return _Stat(0, 0, 0, self._number)
        digest = blake2b(self._stored.stamp.encode(), digest_size=8).digest()
        return _Stat(self._stored.size, int.from_bytes(digest), 0, self._number)


@dataclass(slots=True)
class ObjectTree:
    """What lies under one address at one moment; see `files.Files`.

    Attributes:
        objects: by path relative to the address, those that can be files.
        remarks: about those that can't.
    """

    url: str
    objects: dict[str, StoredObject] = field(default_factory=dict)
    remarks: list[Finding] = field(default_factory=list)
    _by_model: dict[str, dict[str, StoredObject]] = field(default_factory=dict)
    _folders: dict[str, dict[str, Entry]] = field(default_factory=dict)

    @classmethod
    def of(cls, url: str, root: str, found: Iterable[StoredObject]) -> "ObjectTree":
        """`root` is the key of the folder that all lie in, without a slash at its end."""
        tree = cls(url)
        files: list[tuple[str, StoredObject]] = []
        for each in found:
            path = each.key.removeprefix(f"{root}/")
            if not path:
                tree._folder("")  # marks the repository itself
            elif reason := _why_no_path(path.removesuffix("/")):
                tree._remark(path, reason)
            elif path.endswith("/"):
                tree._folder(path[:-1])
            else:
                files.append((path, each))
                tree._folder(path.rpartition("/")[0])
        for path, stored in files:
            if path in tree._folders:
                tree._remark(path, "there are objects below it, so that it is a folder")
                continue
            tree.objects[path] = stored
            tree._enter(path, stored)
            model, _, inner = path.partition("/")
            tree._by_model.setdefault(model, {})[inner] = stored
        return tree

    def listing(self, path: str) -> Entries:
        inner = path.removeprefix(self.url).strip("/")
        if inner in self.objects:
            raise NotADirectoryError
        if inner not in self._folders:
            raise FileNotFoundError
        shown = (entry for name, entry in self._folders[inner].items() if not name.startswith("."))
        return sorted(shown, key=lambda each: each.name)

    def add_folders(self, names: Iterable[str]) -> None:
        """Folders of which only the names are known."""
        self._folder("")
        for name in names:
            if not _why_no_path(name):
                self._folder(name)

    def model(self, name: str) -> tuple[Mapping[str, StoredObject], Sequence[str]]:
        """Objects of one model's folder by path relative to it, and the folders in it, any deep."""
        inside: list[str] = []
        waiting = [name]
        for path in waiting:  # grows meanwhile
            waiting += [f"{path}/{entry.name}" for entry in self._folders.get(path, {}).values() if entry.is_dir()]
            inside.append(path)
        return self._by_model.get(name, {}), [path.removeprefix(f"{name}/") for path in inside[1:]]

    def _folder(self, path: str) -> None:
        if path not in self._folders:
            self._folders[path] = {}
            if path:
                self._enter(path, None)

    def _enter(self, path: str, stored: StoredObject | None) -> None:
        above, _, name = path.rpartition("/")
        self._folder(above)
        number = len(self.objects) + len(self._folders)
        self._folders[above][name] = RemoteEntry(name, f"{self.url}/{path}", number, stored)

    def _remark(self, path: str, reason: str) -> None:
        shown = f"{self.url}/{path}".encode(errors="backslashreplace").decode()
        self.remarks.append(warning("".join(c if c.isprintable() else "?" for c in shown), f"ignored: {reason}"))


def _why_no_path(path: str) -> str:
    """Why an object's name is no path of a file in the folder; "" for nearly every one."""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts):
        return "its name has parts that are empty, '.' or '..', so that it is no path of a file"
    if any(ord(each) < 32 or ord(each) == 127 for each in path):
        return "its name has control characters"
    try:
        encoded = [os.fsencode(part) for part in parts]
        path.encode()
    except UnicodeEncodeError:
        return "its name is no text"
    if len(parts) > _MAX_PATH_PARTS or sum(map(len, encoded)) > _MAX_PATH_BYTES:
        return f"its name has more than {_MAX_PATH_BYTES} bytes or {_MAX_PATH_PARTS} parts"
    if any(len(part) > _MAX_NAME_BYTES for part in encoded):
        return f"a part of its name is longer than {_MAX_NAME_BYTES} bytes"
    return ""
