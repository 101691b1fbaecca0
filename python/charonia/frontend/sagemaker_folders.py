"""Which repository and which model a folder is that SageMaker has laid out for a multi-model endpoint.

/opt/ml/models/<hash>/model/config.pbtxt           the folder is the model, what holds it is the repository
/opt/ml/models/<hash>/model/<name>/config.pbtxt    the folder is the repository; with several models, of the ensemble
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

from charonia.config.findings import ConfigError
from charonia.config.model_config import CONFIG_FILE
from charonia.config.pbtxt import LIMIT_BYTES, parse_pbtxt
from charonia.core.errors import InvalidArgumentError
from charonia.core.files import read_regular
from charonia.core.text import shown

_BELOW = re.compile(r"/[0-9A-Za-z._-]+/model(?:/[0-9A-Za-z._-]+)?")


@dataclass(frozen=True, slots=True)
class Place:
    """A model: the folder in a repository."""

    repository: str
    folder: str


def place_of(url: str, root: str) -> Place:
    """
    Raises:
        InvalidArgumentError: it is no folder below `root` as SageMaker makes them, or has no model, or several of
            which none is an ensemble.
    """
    path = os.path.normpath(url)
    if not path.startswith(f"{root}/") or not _BELOW.fullmatch(path.removeprefix(root)):
        raise InvalidArgumentError(
            f"Invalid \"url\" '{shown(url)}': expected a path of the form {root}/<hash>/model[/<subdir>]"
        )
    folders = _folders(path, url)
    if os.path.isfile(f"{path}/{CONFIG_FILE}") or (folders and all(name.isdecimal() for name in folders)):
        return Place(os.path.dirname(path), os.path.basename(path))
    if len(folders) > 1:
        folders = [name for name in folders if _is_ensemble(f"{path}/{name}/{CONFIG_FILE}")] or folders
    if len(folders) != 1:
        there = shown(", ".join(folders)) or "no folder"
        raise InvalidArgumentError(
            f"Invalid \"url\" '{shown(url)}': expected the folder of one model, or of several with one ensemble on "
            f"them, got {there}"
        )
    return Place(path, folders[0])


def _folders(path: str, url: str) -> list[str]:
    try:
        return sorted(entry.name for entry in os.scandir(path) if entry.is_dir() and not entry.name.startswith("."))
    except OSError as error:
        raise InvalidArgumentError(f"Invalid \"url\" '{shown(url)}': {error.strerror}") from None


def _is_ensemble(path: str) -> bool:
    """A configuration that can't be read is found out when the model is loaded."""
    try:
        config = parse_pbtxt(read_regular(Path(path), LIMIT_BYTES + 1), path).config
    except (OSError, ConfigError):
        return False
    return config.platform == "ensemble" or config.HasField("ensemble_scheduling")
