"""Finding the `.onnx` file of a model version."""

import os
from pathlib import Path

from charonia.backends.missing_file import missing_file
from charonia.config.schema import ModelConfig

DEFAULT_FILENAME = "model.onnx"


def model_file(config: ModelConfig, model_dir: Path, version_dir: Path) -> Path:
    """`<version>/model.onnx`, or what `default_model_filename` says; a folder of that name holds a `model.onnx`.

    Raises:
        NotFoundError: there is no such file; the message lists what the version folder holds, and says what to do.
    """
    filename = config.default_model_filename or DEFAULT_FILENAME
    path = version_dir / filename
    # Not `path.is_dir()`, which raises for a folder that may not be entered.
    if os.path.isdir(path):
        path = path / DEFAULT_FILENAME
    if os.path.isfile(path):
        return path
    raise missing_file(config.name, path, model_dir, version_dir)
