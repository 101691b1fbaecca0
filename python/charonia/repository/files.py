"""What the repository looks at: folders and files, wherever they lie. Nothing is read through this."""

import os
from collections.abc import Sequence
from typing import Protocol


class Stat(Protocol):
    """What tells whether a file has changed; `os.stat_result` has it."""

    @property
    def st_size(self) -> int: ...
    @property
    def st_mtime_ns(self) -> int: ...
    @property
    def st_dev(self) -> int: ...
    @property
    def st_ino(self) -> int: ...


class Entry(Protocol):
    """A file or folder; `os.DirEntry` is one. All but `name` and `path` raise OSError."""

    @property
    def name(self) -> str: ...
    @property
    def path(self) -> str: ...
    def is_dir(self) -> bool: ...
    def is_file(self) -> bool: ...
    def is_symlink(self) -> bool: ...
    def stat(self) -> Stat: ...


Entries = Sequence[Entry]


class Files(Protocol):
    """Looks into folders."""

    def listing(self, path: str) -> Entries:
        """What a folder holds, hidden things left out, sorted by name. Raises OSError."""
        ...


class LocalFiles:
    """The file system of this machine."""

    def listing(self, path: str) -> Entries:
        with os.scandir(path) as entries:
            return sorted((each for each in entries if not each.name.startswith(".")), key=lambda each: each.name)


LOCAL = LocalFiles()
