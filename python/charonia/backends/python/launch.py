"""Everything that is needed to start a process for a model instance: a plain record, and how it is made."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from charonia.backends.base import InstanceSpec, ModelContext
from charonia.backends.missing_file import missing_file
from charonia.backends.python.environment import Environment
from charonia.config.json_form import config_to_json_text
from charonia.core.errors import InvalidArgumentError

DEFAULT_MODEL_FILE = "model.py"

# Memory that numpy frees goes back to the process, not to the kernel at once: else each array of more than 128 KiB
# costs the page faults of all its pages again (a batch of 1,000 strings 150 µs, four megabytes a millisecond).
_MALLOC = {"MALLOC_MMAP_THRESHOLD_": str(16 << 20), "MALLOC_TRIM_THRESHOLD_": str(64 << 20)}
_NOT_IN_NAMES = frozenset(";|&$`<>()[]{}\\\"'*?~#!")
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """Where a model's code is.

    Attributes:
        model_file: the file with TritonPythonModel.
        package: the module's parent package (the version), so that `from . import helper` works.
        folders: what becomes importable.
        version_dir: what `get_model_dir` gives.
    """

    model_file: Path
    package: str
    folders: tuple[Path, ...]
    version_dir: Path

    def start_arguments(self) -> tuple[str, str, list[str], str]:
        """Of the START frame."""
        return str(self.model_file), self.package, [str(folder) for folder in self.folders], str(self.version_dir)


def find_files(context: ModelContext, backend_file: Path | None) -> ModelFiles:
    """The model's own file, or for a Python-based backend the backend's.

    Raises:
        NotFoundError: there is none.
        InvalidArgumentError: the model's name has characters that Triton takes for Python models in no name.
    """
    if not _NOT_IN_NAMES.isdisjoint(context.name):
        raise InvalidArgumentError(
            f"Invalid stub name: contains invalid characters: model '{context.name}' is a Python model, "
            f"whose name may have none of {''.join(sorted(_NOT_IN_NAMES))}"
        )
    if backend_file is not None:
        return ModelFiles(
            backend_file, f"{context.config.backend}_backend", (backend_file.parent,), context.version_dir
        )
    path = context.version_dir / (context.config.default_model_filename or DEFAULT_MODEL_FILE)
    if not os.path.isfile(path):  # `path.is_file()` raises for a folder that may not be entered
        raise missing_file(context.name, path, context.model_dir, context.version_dir)
    folders = tuple(dict.fromkeys((path.parent, context.version_dir, context.model_dir)))
    return ModelFiles(path, str(context.version), folders, context.version_dir)


def model_args(context: ModelContext, spec: InstanceSpec) -> dict[str, str]:
    """The `args` of initialize: Triton's keys, all values text."""
    on_gpu = spec.device.startswith("gpu:")
    kind = spec.kind.removeprefix("KIND_")
    return {
        "model_config": config_to_json_text(context.config),
        "model_instance_kind": "CPU" if kind == "GPU" and not on_gpu else kind,
        "model_instance_name": spec.name,
        "model_instance_device_id": spec.device.removeprefix("gpu:") if on_gpu else "0",
        "model_repository": str(context.model_dir),
        "model_version": str(context.version),
        "model_name": context.name,
    }


def process_environment(environment: Environment, cpu_threads: int, server: Mapping[str, str]) -> dict[str, str]:
    """The environment variables of a model's process. What the user has set stays."""
    variables = dict(server)
    for name in environment.unset:
        variables.pop(name, None)
    for name, folders in environment.prepend.items():
        variables[name] = os.pathsep.join([*folders, *filter(None, [variables.get(name)])])
    variables.update(environment.set)
    for name, value in [*_MALLOC.items(), *((name, str(cpu_threads)) for name in _THREADS)]:
        variables.setdefault(name, value)
    return variables
