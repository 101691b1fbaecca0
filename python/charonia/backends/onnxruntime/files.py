"""Finding the `.onnx` file of a model version, and saying what is there instead when it is missing."""

from pathlib import Path

from charonia.config.schema import ModelConfig
from charonia.core.errors import NotFoundError

DEFAULT_FILENAME = "model.onnx"
_LISTED = 10


def model_file(config: ModelConfig, model_dir: Path, version_dir: Path) -> Path:
    """`<version>/model.onnx`, or what `default_model_filename` says; a folder of that name holds a `model.onnx`.

    Raises:
        NotFoundError: there is no such file; the message lists what the version folder holds, and says what to do.
    """
    filename = config.default_model_filename or DEFAULT_FILENAME
    path = version_dir / filename
    if path.is_dir():
        path = path / DEFAULT_FILENAME
    if path.is_file():
        return path
    raise NotFoundError(
        f"model '{config.name}' has no '{path.relative_to(version_dir)}' in '{version_dir}': "
        f"{_contents(version_dir)}{_advice(path.name, model_dir, version_dir)}"
    )


def _contents(folder: Path) -> str:
    names = sorted(entry.name + "/" * entry.is_dir() for entry in folder.iterdir()) if folder.is_dir() else []
    if not names:
        return "the folder is empty"
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    return f"the folder holds {', '.join(names[:_LISTED])}{more}"


def _advice(filename: str, model_dir: Path, version_dir: Path) -> str:
    if (model_dir / filename).is_file():
        return f"; '{filename}' lies beside the version folder: move it into '{version_dir.name}/'"
    others = sorted(path.name for path in version_dir.glob("*.onnx"))
    if len(others) == 1:
        return f"; rename '{others[0]}' to '{filename}', or set default_model_filename: \"{others[0]}\""
    return f"; the model file must have the name '{filename}' unless default_model_filename says another"
