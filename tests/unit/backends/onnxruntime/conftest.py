"""`serve(model, config)`: an ONNX model behind one instance, without a server."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx_models
import pytest
from google.protobuf import text_format

from charonia.backends.base import InstanceSpec
from charonia.backends.onnxruntime import OnnxRuntimeBackend
from charonia.config.schema import ModelConfig


@pytest.fixture
def parse() -> Callable[[str], ModelConfig]:
    return lambda text: text_format.Parse(text, ModelConfig())


@pytest.fixture
def serve(
    tmp_path: Path, context_for: Any, runner_of: Any, spec: InstanceSpec, parse: Callable[[str], ModelConfig]
) -> Callable[..., Any]:
    """Writes the model to `<tmp>/m/1/model.onnx`, loads it with `config` (auto-completed), and gives a runner."""

    def make(model: onnx.ModelProto, config: str = "", **backend_config: str) -> Any:
        onnx_models.save(model, tmp_path, "m")
        backend = OnnxRuntimeBackend()
        context = context_for(parse(f'name: "m" backend: "onnxruntime" {config}'), **backend_config)
        context = context_for(backend.complete_config(context), **backend_config)
        return runner_of(backend.load(context).create_instance(spec), context.config)

    return make
