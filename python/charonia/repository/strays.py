"""What lies in a repository where nothing looks for it: each with its place, and where it belongs.

All of these are warnings. When a model can't be served, they are the likely reason and stand in its error.
"""

import os
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

from charonia.config.findings import Finding, Severity
from charonia.config.model_config import CONFIG_FILE
from charonia.config.places import Place
from charonia.core.cloud_address import is_cloud_address
from charonia.repository.files import LOCAL, Entries, Entry, Files

_MAX_VERSION = 2**63 - 1
# Folders beside the version folders that have another meaning.
_OTHER_FOLDERS = frozenset({"configs", "warmup", "initial_state"})
_MODEL_SUFFIXES = frozenset({".onnx", ".pt", ".plan", ".savedmodel", ".graphdef", ".xml", ".bin", ".json"})
_MODEL_FILES = frozenset({"model.py", "saved_model.pb"})
# What a model named `densenet.onnx` may be called; other files beside version folders are notes, labels and the like.
_SURELY_MODELS = frozenset({".onnx", ".pt", ".pth", ".plan", ".engine", ".graphdef", ".safetensors"})
_ARCHIVES = (".zip", ".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")
_CONFIG_SUFFIXES = ("", "json", "yaml", "yml", "txt", "pb.txt", "pbtxt.txt", "pbtxt", "pbtext", "prototxt", "textproto")


def is_version(name: str) -> bool:
    """Whether a folder of this name holds a version."""
    return name.isascii() and name.isdigit() and name[0] != "0" and int(name) <= _MAX_VERSION


def in_repository(repository: str, entries: Entries, misplaced: Finding | None) -> Iterable[Finding]:
    """Files beside the model folders, and a repository that is none: `misplaced`, as `why_no_repository` has it."""
    if misplaced is not None:
        yield misplaced
    for entry in entries:
        if not _is_file(entry):
            continue
        if entry.name.endswith(_ARCHIVES):
            yield _ignored(entry.path, "it is an archive, and only folders are models", "unpack it")
        elif is_model_file(entry.name) and misplaced is None:
            reason = "a model file belongs into a version folder of a model folder"
            yield _ignored(entry.path, reason, f"move it, for example to {_home(repository, entry.name)}")
        elif entry.name == CONFIG_FILE and misplaced is None:
            yield _ignored(entry.path, "a configuration belongs into the folder of its model", "move it there")


def _home(repository: str, name: str) -> str:
    """Where a model file of this name would be found without a configuration."""
    stem, _, suffix = name.partition(".")
    return f"{repository}/{stem}/1/{'model.onnx' if suffix == 'onnx' else name}"


def why_no_repository(repository: str, entries: Entries, files: Files = LOCAL) -> Finding | None:
    """The most usual first mistake: the folder of one model, or of one version, where the repository should stand."""
    if any(_is_folder(entry) and not is_version(entry.name) and _holds_versions(entry, files) for entry in entries):
        return None
    if any(entry.name == CONFIG_FILE and _is_file(entry) for entry in entries) or _has_versions(entries, files):
        message = f"'{repository}' looks like the folder of one model; a repository is the folder above it"
        return warning(repository, message, f"give --model-repository={_above(repository, 1)}")
    names = [entry.name for entry in entries if _is_file(entry) and is_model_file(entry.name)]
    if names and is_version(os.path.basename(_absolute(repository))):
        message = f"'{repository}' looks like a version folder ('{names[0]}' lies in it); a repository is two above it"
        return warning(repository, message, f"give --model-repository={_above(repository, 2)}")
    return None


def _absolute(repository: str) -> str:
    return repository if is_cloud_address(repository) else os.path.abspath(repository)


def _above(repository: str, levels: int) -> str:
    """Relative where the user wrote so."""
    above = _absolute(repository)
    for _ in range(levels):
        above = os.path.dirname(above)
    is_absolute = os.path.isabs(repository) or is_cloud_address(repository)
    return above if is_absolute else os.path.relpath(above)


def in_model(path: str, entries: Entries, files: Files = LOCAL) -> Iterable[Finding]:
    """Files and folders of one model's folder that nothing reads."""
    versions = [entry for entry in entries if is_version(entry.name) and _is_folder(entry)]
    yield from _configs(path, entries, versions, files)
    for entry in entries:
        if _is_folder(entry):
            yield from _folder(os.path.basename(path), entry, bool(versions), files)
        elif is_model_file(entry.name):
            yield from _beside(path, entry, versions, files)


def _folder(model: str, entry: Entry, has_versions: bool, files: Files) -> Iterable[Finding]:
    if is_version(entry.name) or entry.name in _OTHER_FOLDERS:
        return
    if reason := _why_no_version(entry.name):
        message = f"folder '{entry.name}' is ignored as a version: {reason}"
        yield warning(entry.path, message, f"rename it to '{_number(entry.name)}'" if _number(entry.name) else "")
    elif not has_versions and (_holds_model(entry, files) or _holds_versions(entry, files)):
        inner = f"'{model}/{entry.name}'"
        message = f"the model lies one folder too deep, in {inner}, where nothing looks for it"
        remedy = f"move what is in {inner} up into '{model}'"
        if not _holds_versions(entry, files):
            remedy = f"name the folder by a version: rename {inner} to '{model}/1'"
        yield warning(entry.path, message, remedy)


def _beside(path: str, entry: Entry, versions: Entries, files: Files) -> Iterable[Finding]:
    """With version folders that hold the same, or anything, the file is only left over."""
    if versions and (not is_surely_model(entry.name) or _named(entry.name, versions[-1], files)):
        return
    into = f"{path}/{versions[-1].name if versions else '1'}/{entry.name}"
    where = "beside the version folders" if versions else "in the model's folder itself"
    message = f"{entry.name} lies {where}, where nothing looks for it"
    yield warning(entry.path, message, f"move it into a version folder: {into}")


def _configs(path: str, entries: Entries, versions: Entries, files: Files) -> Iterable[Finding]:
    """Configurations under another name, or in a version folder."""
    has_config = any(entry.name == CONFIG_FILE for entry in entries)
    for entry in entries:
        if not has_config and _is_file(entry) and is_like_config(entry.name):
            message = f"this file is ignored: the configuration is read from {CONFIG_FILE}"
            yield warning(entry.path, message, _config_remedy(entry.name))
    for version in versions:
        inner = _named(CONFIG_FILE, version, files)
        if inner is not None and _is_file(inner):
            message = "this file is ignored: the configuration is read from the folder above"
            home = f"{path}/{CONFIG_FILE}"
            yield warning(inner.path, message, f"remove it; '{home}' counts" if has_config else f"move it to '{home}'")


def _config_remedy(name: str) -> str:
    if name.lower().endswith((".json", ".yaml", ".yml")):
        return f'write it as protobuf text into {CONFIG_FILE}: max_batch_size: 8 where JSON has "max_batch_size": 8'
    return f"rename it to {CONFIG_FILE}"


def is_like_config(name: str) -> bool:
    """Whether a file of this name was probably meant as the configuration."""
    stem, _, suffix = name.lower().partition(".")
    if stem in ("config", "model_config") and suffix in _CONFIG_SUFFIXES:
        return True
    return bool(get_close_matches(name.lower(), [CONFIG_FILE], 1, 0.85))


def _why_no_version(name: str) -> str:
    """ "" for folders that don't look as if they were meant as a version, such as `lib` or `tokenizer`."""
    bare = _bare(name)
    if not (bare.isascii() and bare.isdigit()):
        return ""
    if name.isdigit() and int(name) > _MAX_VERSION:
        return "the number is too large"
    if name.isdigit():
        return "a version is a number above 0 without leading zeros"
    return "a version is a plain number above 0"


def _number(name: str) -> str:
    """What the folder was probably meant to be called; "" when the number is too large."""
    number = max(int(_bare(name)), 1)
    return str(number) if number <= _MAX_VERSION else ""


def _bare(name: str) -> str:
    return name.lower().removeprefix("version").lstrip("v-_+ .")


def is_model_file(name: str) -> bool:
    """Whether a file of this name is probably meant to be served."""
    return (
        name in _MODEL_FILES
        or is_surely_model(name)
        or (Path(name).suffix in _MODEL_SUFFIXES and name.startswith("model."))
    )


def is_surely_model(name: str) -> bool:
    return Path(name).suffix in _SURELY_MODELS or name in _MODEL_FILES


def _has_versions(entries: Entries, files: Files) -> bool:
    return any(_is_folder(entry) and is_version(entry.name) and _holds_model(entry, files) for entry in entries)


def _holds_versions(folder: Entry, files: Files) -> bool:
    return any(is_version(entry.name) and _is_folder(entry) for entry in _listing_or_none(folder, files))


def _holds_model(folder: Entry, files: Files) -> bool:
    return any(is_model_file(entry.name) for entry in _listing_or_none(folder, files))


def _named(name: str, folder: Entry, files: Files) -> Entry | None:
    return next((entry for entry in _listing_or_none(folder, files) if entry.name == name), None)


def _listing_or_none(folder: Entry, files: Files) -> Entries:
    try:
        return files.listing(folder.path)
    except OSError:
        return ()


def _is_folder(entry: Entry) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _is_file(entry: Entry) -> bool:
    try:
        return entry.is_file()
    except OSError:
        return False


def _ignored(path: str, reason: str, remedy: str) -> Finding:
    return warning(path, f"this file is ignored: {reason}", remedy)


def warning(path: str, message: str, remedy: str = "") -> Finding:
    """About a file or folder; a name that is no text is shown by its bytes."""
    return Finding(Severity.WARNING, "", Place(os.fsencode(path).decode(errors="backslashreplace")), message, remedy)
