"""The files of a load request, laid out as a model's folder for as long as a version that was loaded from it lives."""

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from charonia.core.errors import InvalidArgumentError
from charonia.core.temporary import TemporaryFolders
from charonia.core.text import printable, shown
from charonia.repository.temporary import TemporaryFolder

_PREFIX = "charonia-overrides-"
_MAX_FILE_NAME_BYTES = 255
# Both far above what models have, and so low that looking at a path and removing its folders is quick.
_MAX_PATH_BYTES, _MAX_PATH_PARTS = 1024, 64


class OverrideFolders:
    """All such folders of one server."""

    def __init__(self) -> None:
        self._folders = TemporaryFolders(_PREFIX)

    def lay_out(self, model: str, files: Mapping[str, bytes]) -> TemporaryFolder:
        """Write the files into a new folder; the caller holds it.

        Raises:
            InvalidArgumentError: a path that is none, leads out of the folder, or is a folder and a file at once.
            InternalError: they can't be written.
        """
        places = _places(files)
        try:
            root = self._folders.make()
            folder = TemporaryFolder(root, root / model)
            try:
                _write(folder.path, places, files)
            except BaseException:
                folder.release()
                raise
        except OSError as error:
            remedy = "the environment variable TMPDIR chooses another folder"
            raise self._folders.failed(model, error, remedy) from None
        return folder

    def close(self) -> None:
        """Remove what is left, whoever holds it."""
        self._folders.close()


def _write(folder: Path, places: Mapping[str, PurePosixPath], files: Mapping[str, bytes]) -> None:
    folder.mkdir()
    for name, place in places.items():
        path = folder / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(files[name])


def _places(files: Mapping[str, bytes]) -> dict[str, PurePosixPath]:
    """By name in the request, where in the model's folder the file goes."""
    places: dict[str, PurePosixPath] = {}
    taken: dict[PurePosixPath, str] = {}
    for name in files:
        place = _place(name)
        if place in taken:
            raise InvalidArgumentError(
                f"the files '{shown(taken[place])}' and '{shown(name)}' of the request are the same one"
            )
        places[name], taken[place] = place, name
    for place, name in taken.items():
        above = next((taken[parent] for parent in place.parents if parent in taken), None)
        if above is not None:
            raise InvalidArgumentError(f"'{shown(above)}' can't be a file and the folder of '{shown(name)}'")
    return places


def _place(name: str) -> PurePosixPath:
    """`name` without detours. The folder holds no links, so that this is all there is to resolve."""
    who = f"the file '{shown(printable(name[:_MAX_PATH_BYTES]))}' of the request"
    if len(_encoded(name, who)) > _MAX_PATH_BYTES or name.count("/") >= _MAX_PATH_PARTS:
        raise InvalidArgumentError(
            f"{who} has a path of more than {_MAX_PATH_BYTES} bytes or {_MAX_PATH_PARTS} parts; use a shorter one"
        )
    normal = os.path.normpath(name.lstrip("/"))  # Triton's clients also write `file:/1/model.py`
    if normal == ".." or normal.startswith("../"):
        raise InvalidArgumentError(
            f"{who} must stay within model directory: its path is relative to the model's folder, as '1/model.onnx'"
        )
    if not name or normal == "." or name.endswith("/") or "\0" in name:
        raise InvalidArgumentError(f"{who} has no path of a file; expected one such as '1/model.onnx'")
    if any(len(os.fsencode(part)) > _MAX_FILE_NAME_BYTES for part in PurePosixPath(normal).parts):
        raise InvalidArgumentError(f"{who} has a name longer than {_MAX_FILE_NAME_BYTES} bytes")
    return PurePosixPath(normal)


def _encoded(name: str, who: str) -> bytes:
    try:
        return name.encode()
    except UnicodeEncodeError:
        raise InvalidArgumentError(f"{who} has half a character in its path, which is no text") from None
