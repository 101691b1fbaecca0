"""Class labels of outputs: one label a line, in the file that `label_filename` names in the model's folder."""

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

from charonia.config.findings import Finding, Severity
from charonia.core.errors import InvalidArgumentError
from charonia.core.files import read_regular

if TYPE_CHECKING:
    from charonia.config.places import Places
    from charonia.config.schema import ModelConfig, ModelOutput


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


def label_findings(config: "ModelConfig", model_dir: Path, places: "Places") -> Iterator[Finding]:
    """Each file that can't be used, or that has more or fewer labels than its output has classes."""
    for index, output in enumerate(config.output):
        if not output.label_filename:
            continue
        path = f"output[{index}].label_filename"
        try:
            labels = _lines(config.name, output.name, model_dir, output.label_filename)
        except InvalidArgumentError as error:
            yield Finding(Severity.ERROR, path, places.find(path), str(error))
        else:
            message = _wrong_count(output, len(labels))
            if message:
                yield Finding(Severity.WARNING, path, places.find(path), message, "write one label a line, in order")


def _wrong_count(output: "ModelOutput", labels: int) -> str:
    classes = prod(output.dims)
    if not output.dims or any(dim < 1 for dim in output.dims) or classes == labels:
        return ""
    return f"'{output.label_filename}' has {labels} labels, and output '{output.name}' has {classes} elements a row"


def _lines(model: str, output: str, model_dir: Path, filename: str) -> tuple[str, ...]:
    who = f"model '{model}', output '{output}': label_filename '{filename}'"
    path = model_dir / filename
    try:
        if not path.resolve().is_relative_to(model_dir.resolve()):
            raise InvalidArgumentError(f"{who} lies outside the model's folder '{model_dir}'")
        return tuple(read_regular(path).decode("utf-8").splitlines())
    except FileNotFoundError:
        raise InvalidArgumentError(
            f"{who} can't be read: there is no '{path}'{_elsewhere(model_dir, filename)}"
        ) from None
    except (OSError, RuntimeError, ValueError) as error:  # also a link in a circle, a name that is none, no text
        raise InvalidArgumentError(f"{who} can't be read: {error}") from None


def _elsewhere(model_dir: Path, filename: str) -> str:
    """Labels belong beside config.pbtxt, and are often put beside the model file."""
    found = sorted(model_dir.glob(f"*/{filename}")) if filename else []
    return f"; move '{found[0]}' there" if found else ""
