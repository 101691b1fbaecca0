"""Where models are looked for: the repositories of a server, and the folders in them that have a model's name."""

import os
from collections.abc import Iterable, Mapping, Sequence
from unicodedata import category

from charonia.core.cloud_address import is_cloud_address, parse_cloud_address
from charonia.core.errors import InvalidArgumentError, NotFoundError
from charonia.core.model_id import ModelId
from charonia.core.text import printable, shown
from charonia.repository.files import LOCAL, Entry, Files

Holders = Mapping[ModelId, Sequence[str]]
"""By model, the repositories that have its folder; with namespaces always one."""

Renamed = Mapping[str, Mapping[str, str]]
"""By repository and folder, the name that the model in it is served under."""
NOT_RENAMED: Renamed = {}

DUPLICATE = "model appears in two or more repositories"
_MAX_NAME_BYTES = 255


def repository_paths(given: Sequence[str]) -> tuple[str, ...]:
    """The repositories, each once: folders in one way of writing it, addresses as they were written first.

    Raises:
        InvalidArgumentError: a URL that is no address of a repository.
    """
    paths: dict[str, str] = {}
    for each in given:
        if is_cloud_address(each):
            address = parse_cloud_address(each)
            paths.setdefault(address.url, address.written)
        else:
            paths.setdefault(os.path.normpath(each), os.path.normpath(each))
    return tuple(paths.values())


def holders_of_models(
    repositories: Sequence[str], files: Files = LOCAL, *, namespacing: bool = False, renamed: Renamed = NOT_RENAMED
) -> dict[ModelId, tuple[str, ...]]:
    """All folders that may be models; nothing looks into them. A repository that can't be read has none."""
    found: dict[ModelId, tuple[str, ...]] = {}
    for repository in repositories:
        for name in _folders(repository, files):
            name = renamed.get(repository, {}).get(name, name)
            model = ModelId(name, repository if namespacing else "")
            found[model] = (*found.get(model, ()), repository)
    return found


def holder_of(model: ModelId, holders: Holders) -> str:
    """The one repository that has the model.

    Raises:
        NotFoundError: there is none.
        InvalidArgumentError: there are several.
    """
    found = holders.get(model, ())
    if not found:
        raise NotFoundError(missing_reason(model, holders))
    if len(found) > 1:
        raise InvalidArgumentError(duplicate_reason(model, found))
    return found[0]


def of_name(name: str, there: Iterable[ModelId]) -> list[ModelId]:
    """Those that `name` means: all of that name, in whichever namespace; itself alone where there is none."""
    return [model for model in there if name in (model.name, model)] or [ModelId(name)]


def duplicate_reason(name: str, repositories: Sequence[str]) -> str:
    return f"{DUPLICATE}: '{name}' is in {', '.join(repositories)}"


def missing_reason(name: str, there: Iterable[str]) -> str:
    models = shown(", ".join(sorted(there))) or "none"
    return f"'{shown(name)}': model not found in any model repository; there are: {models}"


def check_model_name(name: str) -> None:
    """Refuse what can't be a folder of a repository.

    Raises:
        InvalidArgumentError: with the reason.
    """
    if reason := _why_no_name(name):
        raise InvalidArgumentError(
            f"invalid model name '{shown(printable(name))}': {reason}; a model has the name of its folder"
        )


def _why_no_name(name: str) -> str:
    if not name.strip():
        return "Model name cannot be empty"
    if "/" in name or name.strip() in (".", ".."):
        return "model name must not contain path traversal characters: no '/', and not '.' or '..' alone"
    if any(category(each) in ("Cc", "Cs") for each in name):
        return "it has control characters, or bytes that are no text"
    if len(name.encode(errors="surrogateescape")) > _MAX_NAME_BYTES:
        return f"it is longer than {_MAX_NAME_BYTES} bytes"
    return ""


def _folders(repository: str, files: Files) -> list[str]:
    try:
        entries = files.listing(repository)
    except OSError:
        return []
    return [entry.name for entry in entries if _is_folder(entry) and _is_text(entry.name)]


def _is_folder(entry: Entry) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link that leads in a circle
        return False


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
