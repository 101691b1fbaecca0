"""Files that a configuration names lie in the model's folder: it may come from others, and must not read elsewhere."""

from collections.abc import Iterator
from posixpath import isabs, normpath

from charonia.config.report import Report
from charonia.config.schema import ModelConfig

_VERSION_FOLDER = "1"
"""Stands for any version folder: a path may lead out of it, as long as it stays in the model's."""


def check_paths(config: ModelConfig, report: Report) -> None:
    for path, name, folder in _named_files(config):
        if _escapes(name, folder):
            where = f"the model's folder{f' ({folder}/ in it)' if folder not in ('', _VERSION_FOLDER) else ''}"
            field = path.rpartition(".")[2].partition("[")[0]
            message = f'{field} is "{name}", which leads out of {where}'
            report.error(path, message, "move the file into it, and write its path from there")


def _named_files(config: ModelConfig) -> Iterator[tuple[str, str, str]]:
    """Each file: the field's path, what it says, and the folder in the model's folder that it starts from."""
    yield "default_model_filename", config.default_model_filename, _VERSION_FOLDER
    for capability, name in config.cc_model_filenames.items():
        yield f'cc_model_filenames["{capability}"]', name, _VERSION_FOLDER
    for index, output in enumerate(config.output):
        yield f"output[{index}].label_filename", output.label_filename, ""
    for index, sample in enumerate(config.model_warmup):
        for key, given in sample.inputs.items():
            yield f'model_warmup[{index}].inputs["{key}"].input_data_file', given.input_data_file, "warmup"
    for index, state in enumerate(config.sequence_batching.state):
        for number, initial in enumerate(state.initial_state):
            path = f"sequence_batching.state[{index}].initial_state[{number}].data_file"
            yield path, initial.data_file, "initial_state"


def _escapes(name: str, folder: str) -> bool:
    if not name:
        return False
    reached = normpath(f"{folder}/{name}" if folder else name)
    return isabs(name) or "\0" in name or reached == ".." or reached.startswith("../")
