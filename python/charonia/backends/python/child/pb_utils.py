"""Puts together the module that models import: `import triton_python_backend_utils as pb_utils`."""

from __future__ import annotations

import os
import sys
from types import ModuleType
from typing import Any

import numpy as np

from . import calls, datatypes, errors, messages, model_config, responses, senders, strings, tensor
from .logger import make_logger
from .metrics import Metric, MetricKind, make_metric_family
from .model_control import make_model_control
from .runtime import WARNING, Runtime

MODULE_NAME = "triton_python_backend_utils"

_SHARED: dict[str, Any] = {
    "np": np,
    "Tensor": tensor.Tensor,
    "InferenceResponse": responses.InferenceResponse,
    "InferenceResponseSender": senders.InferenceResponseSender,
    "ResponseIterator": calls.ResponseIterator,
    "InferenceTrace": messages.InferenceTrace,
    "MemoryType": messages.MemoryType,
    "PreferredMemory": messages.PreferredMemory,
    "TritonError": errors.TritonError,
    "TritonModelException": errors.TritonModelException,
    "ModelConfig": model_config.ModelConfig,
    "Metric": Metric,
    "MetricKind": MetricKind,
    "get_input_config_by_name": model_config.get_input_config_by_name,
    "get_output_config_by_name": model_config.get_output_config_by_name,
    "using_decoupled_model_transaction_policy": model_config.using_decoupled_model_transaction_policy,
    "serialize_byte_tensor": strings.serialize_byte_tensor,
    "deserialize_bytes_tensor": strings.deserialize_bytes_tensor,
    "triton_string_to_numpy": datatypes.triton_string_to_numpy,
    "triton_to_numpy_type": datatypes.triton_to_numpy_type,
    "numpy_to_triton_type": datatypes.numpy_to_triton_type,
    "TRITON_STRING_TO_NUMPY": datatypes.TRITON_STRING_TO_NUMPY,
    **{name: getattr(messages, name) for name in dir(messages) if name.startswith("TRITONSERVER_")},
}


def get_input_tensor_by_name(inference_request: messages.InferenceRequest, name: str) -> tensor.Tensor | None:
    """The input of this name, None if the request has none."""
    for found in inference_request._inputs:
        if found._name == name:
            return found
    return None


def make_get_output_tensor_by_name(runtime: Runtime) -> Any:
    def get_output_tensor_by_name(inference_response: responses.InferenceResponse, name: str) -> tensor.Tensor | None:
        """The output of this name, None if the response has none: the log says why, if that is an error."""
        if not isinstance(inference_response, responses.InferenceResponse):
            hint = ": await it first" if hasattr(inference_response, "__await__") else ""
            given = type(inference_response).__name__
            raise TypeError(f"get_output_tensor_by_name needs an InferenceResponse, got {given}{hint}")
        for found in inference_response._outputs:
            if found._name == name:
                return found
        error = inference_response._error
        if error is not None:
            caller = sys._getframe(1)
            text = f"there is no output '{name}' in a response that is an error: {error.message()}"
            runtime.log(WARNING, text, os.path.basename(caller.f_code.co_filename), caller.f_lineno)
        return None

    return get_output_tensor_by_name


def build_module(runtime: Runtime) -> ModuleType:
    """A new `triton_python_backend_utils` for one model."""
    module = ModuleType(MODULE_NAME, "Triton's Python API for models, as Charonia serves it.")
    module.__dict__.update(_SHARED)
    get_output_tensor_by_name = make_get_output_tensor_by_name(runtime)
    for function in (get_input_tensor_by_name, get_output_tensor_by_name, *make_model_control(runtime)):
        setattr(module, function.__name__, function)
    module.__dict__["InferenceRequest"] = messages.request_class(runtime)
    module.__dict__["Logger"] = make_logger(runtime)
    module.__dict__["MetricFamily"] = make_metric_family(runtime)
    module.__dict__["get_model_dir"] = lambda: runtime.model_dir
    return module
