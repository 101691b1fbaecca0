"""`EXECUTION_ENV_PATH`: the Python environment of a model's own, a venv, a conda folder or a packed one (tar)."""

import hashlib
import os
import shutil
import sys
import tarfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from charonia.core.errors import InvalidArgumentError
from charonia.core.temporary import TemporaryFolders

PARAMETER = "EXECUTION_ENV_PATH"
MODEL_DIRECTORY = "$$TRITON_MODEL_DIRECTORY"
_INTERPRETERS = ("bin/python", "bin/python3", "Scripts/python.exe", "python.exe")


@dataclass(frozen=True, slots=True)
class Environment:
    """An interpreter and what its process needs: variables to unset, to set, and folders to put in front of lists."""

    interpreter: str
    unset: tuple[str, ...] = ()
    set: Mapping[str, str] = field(default_factory=dict)
    prepend: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


class Environments:
    """Finds environments; keeps those that it unpacked until `close`. One for each backend.

    Args:
        above: where it unpacks them; None for the system's folder for temporary files.
    """

    def __init__(self, above: Path | None = None) -> None:
        self._lock = threading.Lock()
        self._folders = TemporaryFolders("charonia-env-", above)
        self._folder: Path | None = None

    def find(self, model: str, value: str, model_dir: Path) -> Environment:
        """The environment that the parameter's value names, the server's own for "".

        Raises:
            InvalidArgumentError: it does not exist, has no interpreter, or can't be unpacked.
        """
        if not value:
            return Environment(sys.executable or "python3")  # a program that embeds Python may have none to name
        path = _resolve(model, value, model_dir)
        if not path.is_dir():
            path = self._unpacked(model, path)
        return _environment(model, path)

    def look(self, model: str, value: str, model_dir: Path) -> Environment | None:
        """As `find`, but None for a packed one: it is not unpacked only to be looked at."""
        if value and not _resolve(model, value, model_dir).is_dir():
            return None
        return self.find(model, value, model_dir)

    def close(self) -> None:
        with self._lock:
            self._folder = None
            self._folders.close()

    def _unpacked(self, model: str, archive: Path) -> Path:
        """Unpack once; again when the file has changed."""
        stat = archive.stat()
        key = hashlib.sha256(f"{archive}:{stat.st_mtime_ns}:{stat.st_size}".encode()).hexdigest()[:16]
        with self._lock:
            if self._folder is None:
                self._folder = self._folders.make()
            target = self._folder / key
            if not target.exists():
                _unpack(model, archive, target)
        return target


def _resolve(model: str, value: str, model_dir: Path) -> Path:
    relative = MODEL_DIRECTORY in value
    path = Path(value.replace(MODEL_DIRECTORY, str(model_dir)))
    if not path.exists():
        raise InvalidArgumentError(f"model '{model}': {PARAMETER} is '{value}', but {path} does not exist")
    path = path.resolve()
    if relative and not path.is_relative_to(model_dir.resolve()):
        raise InvalidArgumentError(
            f"model '{model}': {PARAMETER} '{value}' must stay within model directory {model_dir}, it leads to {path}"
        )
    return path


def _unpack(model: str, archive: Path, target: Path) -> None:
    """Unpack beside the target and rename, so that a target that exists is whole."""
    half = target.with_suffix(".part")
    shutil.rmtree(half, ignore_errors=True)
    half.mkdir()
    try:
        with tarfile.open(archive) as tar:
            if hasattr(tarfile, "tar_filter"):
                tar.extractall(half, filter="tar")  # refuses members that lead out of the folder
            else:
                tar.extractall(half, _inside(tar, half))
    except (tarfile.TarError, OSError, EOFError) as error:
        shutil.rmtree(half, ignore_errors=True)
        raise InvalidArgumentError(f"model '{model}': {PARAMETER} {archive} can't be unpacked: {error}") from None
    half.rename(target)


def _inside(tar: tarfile.TarFile, folder: Path) -> Iterator[tarfile.TarInfo]:
    """The members one by one, each looked at when those before it are there: what the filter "tar" does, for Pythons
    that don't have it yet (before 3.11.4). Raises TarError: one leads out of the folder."""
    root = os.path.realpath(folder)
    for member in tar:
        member.name = member.name.lstrip("/")
        place = os.path.realpath(os.path.join(root, member.name))
        if os.path.commonpath((root, place)) != root:
            raise tarfile.TarError(f"'{member.name}' would be extracted to {place}, outside of the folder")
        member.mode &= 0o755
        yield member


def _environment(model: str, folder: Path) -> Environment:
    for name in _INTERPRETERS:
        interpreter = folder / name
        if interpreter.exists():
            break
    else:
        raise InvalidArgumentError(
            f"model '{model}': {PARAMETER} {folder} has no interpreter; expected {folder / _INTERPRETERS[0]}"
        )
    conda = not (folder / "pyvenv.cfg").exists()
    prepend = {"PATH": (str(interpreter.parent),)}
    if conda and os.name == "posix":
        prepend["LD_LIBRARY_PATH"] = (str(folder / "lib"),)
    # Modules of the server's own interpreter must not reach another one.
    return Environment(
        interpreter=str(interpreter),
        unset=("PYTHONPATH", "PYTHONHOME"),
        set={"CONDA_PREFIX" if conda else "VIRTUAL_ENV": str(folder)},
        prepend=prepend,
    )
