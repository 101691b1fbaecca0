"""One loaded version of an ONNX model: makes a session for each instance."""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from charonia.backends.base import InstanceSpec, ModelContext
from charonia.backends.onnxruntime.instance import InputPlan, OnnxRuntimeInstance, OutputPlan
from charonia.backends.onnxruntime.load_errors import load_error
from charonia.backends.onnxruntime.on_gpu import Gpu, GpuInstance, can_stay
from charonia.backends.onnxruntime.options import run_options, session_options
from charonia.backends.onnxruntime.providers import CPU, CUDA, Provider, providers_for
from charonia.backends.onnxruntime.ragged import RaggedInstance, is_ragged
from charonia.backends.onnxruntime.runtime import Module
from charonia.backends.onnxruntime.signature import Signature, signature_of
from charonia.backends.onnxruntime.values import text_array
from charonia.config.complete import check_against_model
from charonia.config.findings import raise_on_errors
from charonia.config.given_elsewhere import dims_given_elsewhere, names_given_elsewhere
from charonia.config.schema import ModelConfig, ModelInstanceGroup
from charonia.core.datatypes import BYTES
from charonia.core.errors import CharoniaError
from charonia.core.tensor import Tensor

if TYPE_CHECKING:
    from charonia.config.schema import ModelInput, ModelOutput


class OnnxRuntimeModel:
    """Each instance has a session of its own, as in Triton: its threads and memory are its own."""

    def __init__(self, runtime: Module, context: ModelContext, path: Path) -> None:
        self._runtime = runtime
        self._context = context
        self._path = path

    def create_instance(self, spec: InstanceSpec) -> OnnxRuntimeInstance:
        """
        Raises:
            InvalidArgumentError: the file or a setting is wrong, or the configuration contradicts the model.
            UnavailableError: the instance's device needs another ONNX Runtime package.
            BackendError: ONNX Runtime refuses the model.
        """
        config = self._context.config
        session = open_session(self._runtime, self._context, self._path, spec)
        signature = signature_of(session, config.name, tensor_names(config))
        raise_on_errors(
            check_against_model(
                config, signature.inputs, signature.outputs, model_file=self._path.name, places=self._context.places
            )
        )
        by_value = any(tensor.datatype == "BF16" for tensor in (*signature.inputs, *signature.outputs))
        on_gpu = spec.device.startswith("gpu:") and CUDA in session.get_providers() and can_stay(signature)
        kind: Callable[..., OnnxRuntimeInstance] = OnnxRuntimeInstance
        if is_ragged(config):
            kind = partial(RaggedInstance, config=config)
        elif on_gpu:
            kind = partial(GpuInstance, gpu=Gpu.of(spec.device))
        return kind(
            self._runtime,
            session,
            config.name,
            _input_plans(config, signature),
            _output_plan(config, signature),
            states=frozenset(state.output_name for state in config.sequence_batching.state),
            batched=config.max_batch_size > 0,
            by_value=by_value,
            run_options=run_options(self._runtime, config),
        )

    def close(self) -> None:
        """Sessions end with their instances."""


def open_session(runtime: Module, context: ModelContext, path: Path, spec: InstanceSpec) -> Any:
    """An `onnxruntime.InferenceSession` with the model's settings, on the instance's device."""
    config, server = context.config, context.server
    providers = _providers(runtime, context, spec)
    options = session_options(runtime, config, context.backend_config, spec.cpu_threads, server.log_verbose)
    try:
        session = runtime.InferenceSession(
            str(path), options, providers=[(provider.name, provider.options) for provider in providers]
        )
    except CharoniaError:
        raise
    except Exception as error:
        raise load_error(error, config.name, path) from error
    # A provider that fails must fail the request, not print to the terminal and go on by another provider.
    session.disable_fallback()
    return session


def tensor_names(config: ModelConfig) -> list[str]:
    """All inputs and outputs that the configuration names, sequence controls and states among them."""
    given_inputs, given_outputs = names_given_elsewhere(config)
    return [*(io.name for io in config.input), *(io.name for io in config.output), *given_inputs, *given_outputs]


def _providers(runtime: Module, context: ModelContext, spec: InstanceSpec) -> list[Provider]:
    """As configured; an instance on a GPU that nobody asked for stays on the CPU when the package has no CUDA."""
    available = runtime.get_available_providers()
    device = spec.device
    if device != "cpu" and CUDA not in available and not _asks_for_gpu(context.config):
        context.server.log.warning(
            f"instance {spec.name} of model '{context.name}' runs on the CPU: a GPU is visible, but the installed ONNX "
            "Runtime can't use it (pip uninstall -y onnxruntime && pip install 'charonia[gpu]')"
        )
        return [Provider(CPU, {})]
    return providers_for(context.config, device, available)


def _asks_for_gpu(config: ModelConfig) -> bool:
    return any(group.kind == ModelInstanceGroup.KIND_GPU for group in config.instance_group)


def _input_plans(config: ModelConfig, signature: Signature) -> list[InputPlan]:
    unbatched_scalars = _dims_of_one(config, config.input)
    return [
        InputPlan(
            tensor.name,
            text_array if tensor.datatype == BYTES else Tensor.numpy,
            tensor.optional,
            tensor.name in unbatched_scalars and not tensor.dims,
        )
        for tensor in signature.inputs
    ]


def _output_plan(config: ModelConfig, signature: Signature) -> OutputPlan:
    """The configured outputs in the configured order, without any all of the model's; then the states."""
    places = {output.name: place for place, output in enumerate(config.output)}
    states = {state.output_name for state in config.sequence_batching.state}
    wanted = sorted(
        (each for each in signature.outputs if not places or each.name in places or each.name in states),
        key=lambda tensor: places.get(tensor.name, len(places)),
    )
    scalars = _dims_of_one(config, config.output)
    return OutputPlan([tensor.name for tensor in wanted], [tensor.datatype for tensor in wanted], scalars)


def _dims_of_one(config: ModelConfig, ios: "Iterable[ModelInput] | Iterable[ModelOutput]") -> frozenset[str]:
    """Inputs or outputs with dims [1] and no reshape, controls and states: how a configuration writes a scalar."""
    if config.max_batch_size > 0:
        return frozenset()
    ones = {io.name for io in ios if list(io.dims) == [1] and not io.HasField("reshape")}
    return frozenset(ones.union(name for name, dims in dims_given_elsewhere(config) if dims == (1,)))
