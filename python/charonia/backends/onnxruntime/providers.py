"""Execution providers by device: `optimization.execution_accelerators`, and CUDA for instances on a GPU."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from charonia.backends.onnxruntime.settings import Settings
from charonia.config.schema import ModelConfig
from charonia.core.errors import InvalidArgumentError, UnavailableError

if TYPE_CHECKING:
    from charonia.config.schema import ModelOptimizationPolicy

    Accelerator = ModelOptimizationPolicy.ExecutionAccelerators.Accelerator

CPU, CUDA = "CPUExecutionProvider", "CUDAExecutionProvider"
TENSORRT, OPENVINO = "TensorrtExecutionProvider", "OpenVINOExecutionProvider"

_INSTALL = {
    CUDA: "pip uninstall -y onnxruntime && pip install 'charonia[gpu]'",
    TENSORRT: "pip uninstall -y onnxruntime && pip install 'charonia[gpu]' tensorrt",
    OPENVINO: "pip uninstall -y onnxruntime && pip install onnxruntime-openvino",
}
_PRECISIONS = {"FP32": None, "FP16": "trt_fp16_enable", "BF16": "trt_bf16_enable", "INT8": "trt_int8_enable"}
_TENSORRT_NAMES = {
    "max_workspace_size_bytes": "trt_max_workspace_size",
    "int8_calibration_table_name": "trt_int8_calibration_table_name",
    "int8_use_native_calibration_table": "trt_int8_use_native_calibration_table",
}
# The deprecated way to set CUDA options, by the model's parameters; numbers mean these.
_ALGORITHM_SEARCH = {"0": "EXHAUSTIVE", "1": "HEURISTIC", "2": "DEFAULT"}
_ARENA_STRATEGY = {"0": "kNextPowerOfTwo", "1": "kSameAsRequested"}


@dataclass(frozen=True, slots=True)
class Provider:
    """An execution provider by ONNX Runtime's name, with its options."""

    name: str
    options: dict[str, str]


def providers_for(config: ModelConfig, device: str, available: Sequence[str]) -> list[Provider]:
    """The providers of an instance, first choice first: the GPU's accelerators, CUDA, the CPU's accelerators, the CPU.

    Args:
        device: "cpu" or "gpu:0".
        available: what `onnxruntime.get_available_providers` lists.

    Raises:
        InvalidArgumentError: an accelerator or option that does not exist, or not for this device.
        UnavailableError: a provider that the installed package does not have; the message says what to install.
    """
    accelerators = config.optimization.execution_accelerators
    providers: list[Provider] = []
    if device.startswith("gpu:"):
        index = device.removeprefix("gpu:")
        providers += _gpu_providers(config, accelerators.gpu_execution_accelerator, index)
    providers += [_cpu_provider(config, accelerator) for accelerator in accelerators.cpu_execution_accelerator]
    for provider in providers:
        if provider.name not in available:
            raise UnavailableError(_not_available(config, provider.name, available))
    return [*providers, Provider(CPU, {})]


def _gpu_providers(config: ModelConfig, accelerators: "Sequence[Accelerator]", index: str) -> list[Provider]:
    providers: list[Provider] = []
    cuda = _cuda_parameters(config)
    for accelerator in accelerators:
        if accelerator.name == "tensorrt":
            providers.append(Provider(TENSORRT, {**_tensorrt_options(config, accelerator), "device_id": index}))
        elif accelerator.name == "cuda":
            cuda = {**cuda, **accelerator.parameters}
        else:
            raise _unknown(config, "gpu_execution_accelerator", accelerator.name, "tensorrt or cuda")
    return [*providers, Provider(CUDA, {**cuda, "device_id": index})]


def _cpu_provider(config: ModelConfig, accelerator: "Accelerator") -> Provider:
    if accelerator.name != "openvino":
        raise _unknown(config, "cpu_execution_accelerator", accelerator.name, "openvino")
    return Provider(OPENVINO, {"device_type": "CPU", **accelerator.parameters})


def _tensorrt_options(config: ModelConfig, accelerator: "Accelerator") -> dict[str, str]:
    options: dict[str, str] = {}
    for key, value in accelerator.parameters.items():
        if key == "precision_mode":
            if value not in _PRECISIONS:
                raise _unknown(config, "precision_mode of accelerator tensorrt", value, ", ".join(_PRECISIONS))
            enable = _PRECISIONS[value]
            options.update({enable: "1"} if enable else {})
        elif key in _TENSORRT_NAMES or key.startswith("trt_"):
            options[_TENSORRT_NAMES.get(key, key)] = _python_truth(value)
        else:
            known = f"precision_mode, {', '.join(_TENSORRT_NAMES)} or an option that starts with trt_"
            raise _unknown(config, "parameter of accelerator tensorrt", key, known)
    return options


def _python_truth(value: str) -> str:
    """ONNX Runtime's Python interface spells the truth values of TensorRT's options like this."""
    return {"true": "True", "false": "False"}.get(value, value)


def _cuda_parameters(config: ModelConfig) -> dict[str, str]:
    settings = Settings(config)
    stream = settings.flag("do_copy_in_default_stream")
    limit = settings.count("gpu_mem_limit")
    found = {
        "cudnn_conv_algo_search": settings.choice("cudnn_conv_algo_search", _ALGORITHM_SEARCH),
        "arena_extend_strategy": settings.choice("arena_extend_strategy", _ARENA_STRATEGY),
        "gpu_mem_limit": None if limit is None else str(limit),
        "do_copy_in_default_stream": None if stream is None else str(int(stream)),
    }
    return {key: value for key, value in found.items() if value is not None}


def _unknown(config: ModelConfig, what: str, got: str, expected: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"model '{config.name}': unknown {what} '{got}', expected {expected}")


def _not_available(config: ModelConfig, provider: str, available: Sequence[str]) -> str:
    return (
        f"model '{config.name}' needs ONNX Runtime's {provider}, which the installed package does not have "
        f"(it has {', '.join(available)}): {_INSTALL[provider]}"
    )
