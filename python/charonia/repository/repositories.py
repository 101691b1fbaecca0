"""Where models are looked for: the repositories of a server, and the folders in them that have a model's name."""

import os
from collections.abc import Mapping, Sequence
from unicodedata import category

from charonia.core.errors import InvalidArgumentError, NotFoundError
from charonia.core.text import printable, shown
from charonia.options import check_in_file_system
from charonia.repository.strays import listing

Holders = Mapping[str, Sequence[str]]
"""By model name, the repositories that have a folder of that name."""

DUPLICATE = "model appears in two or more repositories"
_MAX_NAME_BYTES = 255


def repository_paths(given: Sequence[str]) -> tuple[str, ...]:
    """The folders, each once.

    Raises:
        UnsupportedError: one that is not in the file system.
    """
    for path in given:
        check_in_file_system(path)
    return tuple(dict.fromkeys(os.path.normpath(path) for path in given))


def holders_of_models(repositories: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """All folders that may be models; nothing looks into them. A repository that can't be read has none."""
    found: dict[str, tuple[str, ...]] = {}
    for repository in repositories:
        for name in _folders(repository):
            found[name] = (*found.get(name, ()), repository)
    return found


def holder_of(name: str, holders: Holders) -> str:
    """The one repository that has the model.

    Raises:
        NotFoundError: there is none.
        InvalidArgumentError: there are several.
    """
    found = holders.get(name, ())
    if not found:
        raise NotFoundError(missing_reason(name, holders))
    if len(found) > 1:
        raise InvalidArgumentError(duplicate_reason(name, found))
    return found[0]


def duplicate_reason(name: str, repositories: Sequence[str]) -> str:
    return f"{DUPLICATE}: '{name}' is in {', '.join(repositories)}"


def missing_reason(name: str, there: Mapping[str, object]) -> str:
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


def _folders(repository: str) -> list[str]:
    try:
        entries = listing(repository)
    except OSError:
        return []
    return [entry.name for entry in entries if os.path.isdir(entry.path) and _is_text(entry.name)]


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True
