"""Session options from `optimization` and `parameters`, with the names of Triton's onnxruntime backend."""

from collections.abc import Mapping
from typing import Any

from charonia.backends.onnxruntime.runtime import Module
from charonia.backends.onnxruntime.settings import Settings
from charonia.config.schema import ModelConfig
from charonia.core.errors import InvalidArgumentError

ALLOW_SPINNING = ("session.intra_op.allow_spinning", "session.inter_op.allow_spinning")
ARENA_SHRINKAGE = "memory.enable_memory_arena_shrinkage"

# `optimization { graph { level } }`: everything is on unless the file says less.
_GRAPH_LEVELS = {-1: "ORT_ENABLE_BASIC", 0: "ORT_ENABLE_ALL", 1: "ORT_ENABLE_EXTENDED", 2: "ORT_DISABLE_ALL"}
_WARNINGS_AND_WORSE = 2
_ERRORS_AND_WORSE = 3


def session_options(
    runtime: Module, config: ModelConfig, backend_config: Mapping[str, str], cpu_threads: int, log_verbose: int
) -> Any:
    """An `onnxruntime.SessionOptions`.

    `cpu_threads` is used where neither the model's `intra_op_thread_count` nor the backend's says a number above 0.
    Threads do not spin unless `session.intra_op.allow_spinning` asks for it: a spinning thread takes a core that the
    server's own threads and the other instances need.

    Raises:
        InvalidArgumentError: a setting with a value that it can't have.
    """
    settings = Settings(config)
    options = runtime.SessionOptions()
    options.log_severity_level = _WARNINGS_AND_WORSE if log_verbose else _ERRORS_AND_WORSE
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, _graph_level(config))
    options.intra_op_num_threads = _threads("intra_op_thread_count", settings, backend_config) or cpu_threads
    options.inter_op_num_threads = _threads("inter_op_thread_count", settings, backend_config) or 0
    mode = settings.choice("execution_mode", {"0": "ORT_SEQUENTIAL", "1": "ORT_PARALLEL"})
    if mode is not None:
        options.execution_mode = getattr(runtime.ExecutionMode, mode)
    _set_memory(options, settings)
    for key in ALLOW_SPINNING:
        options.add_session_config_entry(key, "0")
    for key, value in settings.with_prefix("session.").items():
        options.add_session_config_entry(key, value)
    for library in config.model_operations.op_library_filename:
        options.register_custom_ops_library(library)
    return options


def run_options(runtime: Module, config: ModelConfig) -> Any | None:
    """An `onnxruntime.RunOptions`, None when the defaults do."""
    shrinkage = Settings(config).text(ARENA_SHRINKAGE)
    if not shrinkage:
        return None
    options = runtime.RunOptions()
    options.add_run_config_entry(ARENA_SHRINKAGE, shrinkage)
    return options


def _graph_level(config: ModelConfig) -> str:
    level = config.optimization.graph.level
    if level not in _GRAPH_LEVELS:
        known = ", ".join(str(known) for known in _GRAPH_LEVELS)
        raise InvalidArgumentError(
            f"model '{config.name}': optimization.graph.level must be one of {known}, got {level}"
        )
    return _GRAPH_LEVELS[level]


def _threads(key: str, settings: Settings, backend_config: Mapping[str, str]) -> int:
    count = settings.count(key)
    if count is not None:
        return count
    default = backend_config.get(key, "0")
    if not default.isdecimal():
        raise InvalidArgumentError(f"--backend-config=onnxruntime,{key}={default}: expected a whole number from 0 on")
    return int(default)


def _set_memory(options: Any, settings: Settings) -> None:
    arena, pattern = settings.flag("enable_mem_arena"), settings.flag("enable_mem_pattern")
    if arena is not None:
        options.enable_cpu_mem_arena = arena
    if pattern is not None:
        options.enable_mem_pattern = pattern
