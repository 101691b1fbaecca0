"""Session options and execution providers from a configuration."""

from types import SimpleNamespace
from typing import Any

import onnxruntime
import pytest

from charonia.backends.onnxruntime.options import run_options, session_options
from charonia.backends.onnxruntime.providers import CPU, CUDA, OPENVINO, TENSORRT, Provider, providers_for
from charonia.core.errors import InvalidArgumentError, UnavailableError

EVERY = (CPU, CUDA, OPENVINO, TENSORRT)


def _parameter(key: str, value: str) -> str:
    return f'parameters {{ key: "{key}" value: {{ string_value: "{value}" }} }} '


@pytest.fixture
def options_of(parse: Any) -> Any:
    return lambda text="", threads=3, **backend: session_options(
        onnxruntime, parse(f'name: "m" {text}'), backend, threads, 0
    )


def test_the_share_of_cores_is_the_default(options_of: Any) -> None:
    options = options_of()
    assert (options.intra_op_num_threads, options.inter_op_num_threads) == (3, 0)
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "0"
    assert options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL


def test_the_model_goes_before_the_backend_setting_before_the_share(options_of: Any) -> None:
    model = _parameter("intra_op_thread_count", "5")
    assert options_of(intra_op_thread_count="4").intra_op_num_threads == 4
    assert options_of(model, intra_op_thread_count="4").intra_op_num_threads == 5
    assert options_of(_parameter("intra_op_thread_count", "0")).intra_op_num_threads == 3


def test_threads_between_operators_by_backend_setting(options_of: Any) -> None:
    assert options_of(inter_op_thread_count="4").inter_op_num_threads == 4
    assert options_of(_parameter("inter_op_thread_count", "2"), inter_op_thread_count="4").inter_op_num_threads == 2


def test_every_setting_reaches_the_session(options_of: Any) -> None:
    options = options_of(
        _parameter("inter_op_thread_count", "2")
        + _parameter("execution_mode", "1")
        + _parameter("enable_mem_arena", "0")
        + _parameter("enable_mem_pattern", "false")
        + _parameter("session.intra_op.allow_spinning", "1")
        + "optimization { graph { level: -1 } }"
    )
    assert options.inter_op_num_threads == 2
    assert options.execution_mode == onnxruntime.ExecutionMode.ORT_PARALLEL
    assert not options.enable_cpu_mem_arena
    assert not options.enable_mem_pattern
    assert options.get_session_config_entry("session.intra_op.allow_spinning") == "1"
    assert options.graph_optimization_level == onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC


def test_libraries_of_operators_are_registered(parse: Any) -> None:
    registered: list[str] = []

    class Recorded(onnxruntime.SessionOptions):  # type: ignore[misc]
        def register_custom_ops_library(self, path: str) -> None:
            registered.append(path)

    runtime: Any = SimpleNamespace(**{**vars(onnxruntime), "SessionOptions": Recorded})
    config = parse('name: "m" model_operations { op_library_filename: [ "/a.so", "/b.so" ] }')
    session_options(runtime, config, {}, 1, 0)
    assert registered == ["/a.so", "/b.so"]


def test_arena_shrinkage_is_a_run_option(parse: Any) -> None:
    key = "memory.enable_memory_arena_shrinkage"
    options = run_options(onnxruntime, parse('name: "m" ' + _parameter(key, "cpu:0")))
    assert options is not None
    assert options.get_run_config_entry(key) == "cpu:0"
    assert run_options(onnxruntime, parse('name: "m"')) is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (_parameter("intra_op_thread_count", "many"), "'intra_op_thread_count' must be a whole number"),
        (_parameter("execution_mode", "2"), "'execution_mode' must be 0"),
        (_parameter("enable_mem_arena", "maybe"), "'enable_mem_arena' must be 1 or 0"),
        ("optimization { graph { level: 7 } }", "level must be one of -1, 0, 1, 2, got 7"),
    ],
)
def test_wrong_values_name_model_and_key(options_of: Any, text: str, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"model 'm': .*{words}"):
        options_of(text)


def _accelerator(side: str, name: str, parameters: str = "") -> str:
    accelerator = f'{side}_execution_accelerator {{ name: "{name}" {parameters} }}'
    return f"optimization {{ execution_accelerators {{ {accelerator} }} }}"


def _option(key: str, value: str) -> str:
    return f'parameters {{ key: "{key}" value: "{value}" }} '


def test_providers_by_device(parse: Any) -> None:
    openvino = parse('name: "m" ' + _accelerator("cpu", "openvino"))
    assert providers_for(parse('name: "m"'), "cpu", EVERY) == [Provider(CPU, {})]
    assert providers_for(openvino, "cpu", EVERY) == [Provider(OPENVINO, {"device_type": "CPU"}), Provider(CPU, {})]
    assert providers_for(parse('name: "m"'), "gpu:1", EVERY) == [Provider(CUDA, {"device_id": "1"}), Provider(CPU, {})]


def test_parameters_of_openvino(parse: Any) -> None:
    config = parse('name: "m" ' + _accelerator("cpu", "openvino", _option("num_of_threads", "2")))
    openvino, _ = providers_for(config, "cpu", EVERY)
    assert openvino.options == {"device_type": "CPU", "num_of_threads": "2"}


def test_tensorrt_options_have_the_names_that_the_runtime_knows(parse: Any) -> None:
    parameters = _option("precision_mode", "FP16") + _option("max_workspace_size_bytes", "9")
    parameters += _option("trt_engine_cache_enable", "true")
    config = parse('name: "m" ' + _accelerator("gpu", "tensorrt", parameters))
    tensorrt, cuda, _ = providers_for(config, "gpu:0", EVERY)
    assert tensorrt == Provider(
        TENSORRT,
        {
            "trt_fp16_enable": "1",
            "trt_max_workspace_size": "9",
            "trt_engine_cache_enable": "True",
            "device_id": "0",
        },
    )
    assert cuda.name == CUDA


@pytest.mark.parametrize(
    ("key", "value", "option"),
    [
        ("cudnn_conv_algo_search", "2", "DEFAULT"),
        ("arena_extend_strategy", "1", "kSameAsRequested"),
        ("gpu_mem_limit", "1000", "1000"),
        ("do_copy_in_default_stream", "true", "1"),
    ],
)
def test_every_deprecated_cuda_parameter(parse: Any, key: str, value: str, option: str) -> None:
    config = parse('name: "m" ' + _parameter(key, value))
    assert providers_for(config, "gpu:0", EVERY)[0].options == {key: option, "device_id": "0"}


def test_deprecated_cuda_parameters(parse: Any) -> None:
    config = parse(
        'name: "m" ' + _parameter("cudnn_conv_algo_search", "1") + _accelerator("gpu", "cuda", _option("x", "y"))
    )
    assert providers_for(config, "gpu:0", EVERY)[0].options == {
        "cudnn_conv_algo_search": "HEURISTIC",
        "x": "y",
        "device_id": "0",
    }


@pytest.mark.parametrize(
    ("side", "name", "parameters", "words"),
    [
        ("gpu", "warp", "", "gpu_execution_accelerator 'warp', expected tensorrt or cuda"),
        ("gpu", "tensorrt", _option("precision_mode", "FP4"), "'FP4', expected FP32, FP16, BF16, INT8"),
        ("gpu", "tensorrt", _option("speed", "9"), "'speed'"),
        ("cpu", "tensorrt", "", "cpu_execution_accelerator 'tensorrt', expected openvino"),
    ],
)
def test_unknown_accelerators_and_options(parse: Any, side: str, name: str, parameters: str, words: str) -> None:
    config = parse('name: "m" ' + _accelerator(side, name, parameters))
    with pytest.raises(InvalidArgumentError, match=words):
        providers_for(config, "gpu:0", EVERY)


def test_a_provider_that_is_not_installed_names_the_command(parse: Any) -> None:
    config = parse('name: "m" ' + _accelerator("cpu", "openvino"))
    with pytest.raises(UnavailableError, match=f"{OPENVINO}.*pip install onnxruntime-openvino"):
        providers_for(config, "cpu", [CPU])
    with pytest.raises(UnavailableError, match=r"pip install 'charonia\[gpu\]'"):
        providers_for(parse('name: "m"'), "gpu:0", [CPU])
