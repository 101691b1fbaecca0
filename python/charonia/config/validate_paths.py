"""Files that a configuration names lie in the model's folder: it may come from others, and must not read elsewhere."""

from collections.abc import Iterator
from dataclasses import dataclass
from posixpath import isabs, normpath

from charonia.config.report import Report
from charonia.config.schema import ModelConfig

_VERSION_FOLDER = "1"
"""Stands for any version folder: a path may lead out of it, as long as it stays in the model's."""


@dataclass(frozen=True, slots=True)
class _Named:
    """A file: what the field `field`, at `path`, says, and the folder in the model's folder that it starts from."""

    path: str
    field: str
    name: str
    folder: str


def check_paths(config: ModelConfig, report: Report) -> None:
    for file in _named_files(config):
        if _escapes(file):
            inside = f" ({file.folder}/ in it)" if file.folder not in ("", _VERSION_FOLDER) else ""
            message = f'{file.field} is "{file.name}", which leads out of the model\'s folder{inside}'
            report.error(file.path, message, "move the file into it, and write its path from there")


def _named_files(config: ModelConfig) -> Iterator[_Named]:
    field = "default_model_filename"
    yield _Named(field, field, config.default_model_filename, _VERSION_FOLDER)
    field = "cc_model_filenames"
    for capability, name in config.cc_model_filenames.items():
        yield _Named(f'{field}["{capability}"]', field, name, _VERSION_FOLDER)
    field = "label_filename"
    for index, output in enumerate(config.output):
        yield _Named(f"output[{index}].{field}", field, output.label_filename, "")
    field = "input_data_file"
    for index, sample in enumerate(config.model_warmup):
        for key, given in sample.inputs.items():
            yield _Named(f'model_warmup[{index}].inputs["{key}"].{field}', field, given.input_data_file, "warmup")
    field = "data_file"
    for index, state in enumerate(config.sequence_batching.state):
        for number, initial in enumerate(state.initial_state):
            path = f"sequence_batching.state[{index}].initial_state[{number}].{field}"
            yield _Named(path, field, initial.data_file, "initial_state")


def _escapes(file: _Named) -> bool:
    if not file.name:
        return False
    reached = normpath(f"{file.folder}/{file.name}" if file.folder else file.name)
    return isabs(file.name) or "\0" in file.name or reached == ".." or reached.startswith("../")
