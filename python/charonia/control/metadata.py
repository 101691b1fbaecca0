"""Who the server is, and what a model takes and gives."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from charonia.control.protocols import Models, ServerView
from charonia.core.datatypes import BY_NUMBER
from charonia.core.request import ANY_VERSION

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig, ModelInput, ModelOutput

TRITON_VERSION = "2.73.0"
"""The Triton whose protocol we follow. Tools read it from the server metadata; our own stands in the Server header."""

EXTENSIONS = (
    "classification",
    "sequence",
    "model_repository",
    "model_repository(unload_dependents)",
    "schedule_policy",
    "model_configuration",
    "system_shared_memory",
    "cuda_shared_memory",
    "binary_tensor_data",
    "parameters",
    "statistics",
    "trace",
    "logging",
)
"""The protocol extensions that work here, in Triton's order."""


@dataclass(frozen=True, slots=True)
class ServerMetadata:
    name: str
    version: str
    extensions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TensorMetadata:
    """`shape` with the batch dimension in front (-1) where the model batches."""

    name: str
    datatype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ModelMetadata:
    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorMetadata, ...]
    outputs: tuple[TensorMetadata, ...]


class Metadata:
    """Server and model metadata."""

    def __init__(self, server: ServerView, models: Models, extensions: tuple[str, ...] = EXTENSIONS) -> None:
        self._server = server
        self._models = models
        self._extensions = extensions

    def server(self) -> ServerMetadata:
        return ServerMetadata(self._server.id, TRITON_VERSION, self._extensions)

    def model(self, name: str, version: int) -> ModelMetadata:
        """Without a version: of the one that serves by default, with all versions named. Raises as `find`."""
        models = self._models()
        view = models.find(name, version)
        versions = (view,) if version != ANY_VERSION else models.versions(name)
        config = view.config
        return ModelMetadata(
            view.name,
            tuple(str(each.version) for each in versions),
            config.platform or config.backend,
            _tensors(config.input, config),
            _tensors(config.output, config),
        )


def _tensors(
    specs: "Iterable[ModelInput] | Iterable[ModelOutput]", config: "ModelConfig"
) -> tuple[TensorMetadata, ...]:
    batch = (-1,) if config.max_batch_size > 0 else ()
    return tuple(TensorMetadata(spec.name, BY_NUMBER[spec.data_type].name, (*batch, *spec.dims)) for spec in specs)
