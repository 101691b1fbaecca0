"""Class labels of outputs: one label a line, in the file that `label_filename` names in the model's folder."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from charonia.core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig


def read_labels(config: "ModelConfig", model_dir: Path) -> Mapping[str, Sequence[str]]:
    """The labels by output name, for the outputs that have a file.

    Raises:
        InvalidArgumentError: a file that can't be read, or lies outside the model's folder.
    """
    return {
        output.name: _lines(config.name, output.name, model_dir, output.label_filename)
        for output in config.output
        if output.label_filename
    }


def _lines(model: str, output: str, model_dir: Path, filename: str) -> tuple[str, ...]:
    who = f"model '{model}', output '{output}': label_filename '{filename}'"
    path = model_dir / filename
    if not path.resolve().is_relative_to(model_dir.resolve()):
        raise InvalidArgumentError(f"{who} lies outside the model's folder '{model_dir}'")
    try:
        return tuple(path.read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"{who} can't be read: {error}") from None
