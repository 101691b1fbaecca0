"""What the server calls: complete a configuration from the model file, and load a model version."""

import threading
from dataclasses import replace

from charonia.backends.base import InstanceSpec, ModelContext
from charonia.backends.inspecting import Inspection, file_error
from charonia.backends.onnxruntime.completion import complete
from charonia.backends.onnxruntime.files import model_file
from charonia.backends.onnxruntime.inspection import inspect
from charonia.backends.onnxruntime.model import OnnxRuntimeModel, open_session, tensor_names
from charonia.backends.onnxruntime.runtime import Module, load_runtime, warn_of_double_install
from charonia.backends.onnxruntime.signature import signature_of
from charonia.config.complete import leaves_open
from charonia.config.findings import raise_on_errors
from charonia.config.schema import ModelConfig, ModelOptimizationPolicy
from charonia.core.errors import UnavailableError
from charonia.core.log import Log


class OnnxRuntimeBackend:
    """One for each server. The package onnxruntime is imported with the first model, not before."""

    name = "onnxruntime"

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._runtime: Module | None = None

    def complete_config(self, context: ModelContext) -> ModelConfig:
        """Fill in inputs, outputs, `max_batch_size` and dynamic batching from the model file.

        A configuration that has all of inputs and outputs is left as it is, as Triton leaves it: the file stays closed.

        Raises:
            InvalidArgumentError: the model contradicts the configuration, or its file is wrong.
            NotFoundError, UnavailableError, UnsupportedError: see `model_file`, `load_runtime`, `signature_of`.
        """
        if not leaves_open(context.config):
            return context.config
        runtime = self._load_runtime(context.server.log)
        path = model_file(context.config, context.model_dir, context.version_dir)
        session = open_session(runtime, _for_looking(context), path, _LOOKING)
        signature = signature_of(session, context.name, tensor_names(context.config))
        completed = complete(context, signature, path.name)
        raise_on_errors(completed.findings)
        for finding in completed.findings:
            context.server.log.warning(f"model '{context.name}': {finding}")
        context.completions.extend(completed.completions)
        return completed.config

    def load(self, context: ModelContext) -> OnnxRuntimeModel:
        """
        Raises:
            NotFoundError: the version has no model file.
            UnavailableError: ONNX Runtime is not installed.
        """
        path = model_file(context.config, context.model_dir, context.version_dir)
        return OnnxRuntimeModel(self._load_runtime(context.server.log), context, path)

    def inspect(self, context: ModelContext) -> Inspection:
        """What the model's file says of itself, without loading it."""
        try:
            runtime = self._load_runtime(context.server.log)
        except UnavailableError as error:
            return Inspection(context.config, (file_error(context.model_dir, str(error)),), is_complete=False)
        return inspect(runtime, context)

    def close(self) -> None:
        """Models close their own sessions."""

    def _load_runtime(self, log: Log) -> Module:
        with self._lock:
            if self._runtime is None:
                self._runtime = load_runtime()
                warn_of_double_install(log)
            return self._runtime


_LOOKING = InstanceSpec("auto-complete", "KIND_CPU", "cpu", 1)


def _for_looking(context: ModelContext) -> ModelContext:
    """The same model with nothing optimised and no accelerators: opening it only to look is cheaper then."""
    config = ModelConfig()
    config.CopyFrom(context.config)
    config.optimization.CopyFrom(ModelOptimizationPolicy(graph=ModelOptimizationPolicy.Graph(level=2)))
    return replace(context, config=config, backend_config={})
