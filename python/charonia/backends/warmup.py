"""The `model_warmup` samples of a configuration, executed by an instance before it serves."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from charonia.backends.arranging import OutputArranger
from charonia.backends.base import BackendInstance
from charonia.backends.batch import ExecutingBatch
from charonia.config.io import InputSpec, io_specs, wire_name
from charonia.config.schema import ModelConfig, ModelWarmup
from charonia.core.clock import Clock
from charonia.core.datatypes import BYTES, DATATYPES
from charonia.core.errors import BackendError, CharoniaError, InvalidArgumentError, UnavailableError
from charonia.core.given_data import file_data, zero_data
from charonia.core.log import Log
from charonia.core.request import InferRequest, Reply
from charonia.core.reshape import Reshape
from charonia.core.tensor import HostBuffer, Tensor

if TYPE_CHECKING:
    SampleInput = ModelWarmup.Input

WARMUP_FOLDER = "warmup"
# Random integers stay small: they fit every integer type, and are more often a legal index than a large number is.
_RANDOM_INTEGER_LIMIT = 128


@dataclass(frozen=True, slots=True)
class WarmupSample:
    """`inputs` of one request, reshaped and with a batch dimension of 1 where the model batches.

    `batch_size` such requests make the batch, which is executed `count` times.
    """

    name: str
    batch_size: int
    count: int
    inputs: tuple[Tensor, ...]


def warmup_samples(config: ModelConfig, model_dir: Path) -> list[WarmupSample]:
    """The samples of `config`, their data read or made; those of batch size 0 are left out, as Triton does.

    Raises:
        InvalidArgumentError: the message names the sample, the input, and what is wrong.
    """
    return [_sample(config, warmup, model_dir) for warmup in config.model_warmup if warmup.batch_size > 0]


def warm_up(
    instance: BackendInstance,
    config: ModelConfig,
    samples: Sequence[WarmupSample],
    clock: Clock,
    log: Log,
    stopping: threading.Event,
) -> None:
    """Have `instance` execute every sample, before its own thread starts. Once `stopping` is set nothing more begins.

    Raises:
        BackendError: the model failed; the message names the sample and has the model's own.
        UnavailableError: the server is stopping.
    """
    arranger = OutputArranger(io_specs(config)[1], config.max_batch_size > 0)
    for sample in samples:
        for iteration in range(1, sample.count + 1):
            if stopping.is_set():
                done = f"warmup sample '{sample.name}' ran {iteration - 1} of {sample.count} times"
                raise UnavailableError(f"model '{config.name}' is not loaded: the server is stopping ({done})")
            log.verbose(f"model '{config.name}' is running warmup sample '{sample.name}' for iteration {iteration}")
            _execute(instance, config.name, sample, arranger, clock)


def _execute(
    instance: BackendInstance, model: str, sample: WarmupSample, arranger: OutputArranger, clock: Clock
) -> None:
    channel = _Collector(sample.batch_size)
    now = clock.now_ns()
    requests = [
        InferRequest(model, -1, {tensor.name: tensor for tensor in sample.inputs}, channel, now)
        for _ in range(sample.batch_size)
    ]
    batch = ExecutingBatch(requests, arranger, None, clock)
    try:
        instance.start(batch)
    except Exception as error:
        known = error if isinstance(error, CharoniaError) else BackendError(f"{type(error).__name__}: {error}")
        batch.close(known, model)
    else:
        batch.close(None, model)
    batch.wait_ready()
    failure = channel.wait()
    if failure is not None:
        sentence = (
            f"model '{model}' failed to run warmup sample '{sample.name}': {failure}; it does not serve without it"
        )
        raise BackendError(sentence) from failure


class _Collector:
    """Takes the replies of one warm-up batch: waits for the final ones and keeps the first error."""

    def __init__(self, expected: int) -> None:
        self._lock = threading.Lock()
        self._open = expected
        self._done = threading.Event()
        self._error: CharoniaError | None = None

    def send(self, replies: Sequence[Reply]) -> None:
        with self._lock:
            for reply in replies:
                self._error = self._error or reply.error
                self._open -= reply.final or reply.error is not None
            if self._open <= 0:
                self._done.set()

    def wait(self) -> CharoniaError | None:
        self._done.wait()
        return self._error


def _sample(config: ModelConfig, warmup: ModelWarmup, model_dir: Path) -> WarmupSample:
    _check_batch_size(config, warmup)
    specs = {spec.name: spec for spec in io_specs(config)[0]}
    missing = [name for name, spec in specs.items() if name not in warmup.inputs and not spec.optional]
    if missing:
        surplus = sorted(set(warmup.inputs) - set(specs))
        told = f"; it has some for '{surplus[0]}', which is no input" if surplus else ""
        raise InvalidArgumentError(f"{_who(config, warmup)} has no data for input '{missing[0]}'{told}")
    # Inputs that the configuration does not list may be control inputs: they are sent as they are.
    names = [name for name in specs if name in warmup.inputs] + sorted(set(warmup.inputs) - set(specs))
    tensors = [_tensor(config, warmup, name, specs.get(name), model_dir) for name in names]
    return WarmupSample(warmup.name, warmup.batch_size, warmup.count or 1, tuple(tensors))


def _check_batch_size(config: ModelConfig, warmup: ModelWarmup) -> None:
    limit = max(1, config.max_batch_size)
    if warmup.batch_size > limit:
        why = f"max_batch_size is {config.max_batch_size}" if config.max_batch_size else "the model does not batch"
        raise InvalidArgumentError(
            f"{_who(config, warmup)} has batch_size {warmup.batch_size}, expected at most {limit}: {why}"
        )


def _tensor(config: ModelConfig, warmup: ModelWarmup, name: str, spec: InputSpec | None, model_dir: Path) -> Tensor:
    given = warmup.inputs[name]
    who = f"{_who(config, warmup)}, input '{name}'"
    datatype = wire_name(given.data_type) or (spec.datatype if spec else "")
    if not datatype:
        raise InvalidArgumentError(f"{who} has no data_type")
    if spec is not None and datatype != spec.datatype:
        raise InvalidArgumentError(f"{who} has data_type {datatype}, the model's input has {spec.datatype}")
    dims = tuple(given.dims)
    _check_dims(who, dims, spec)
    data = _data(who, given, datatype, dims, model_dir)
    batched = config.max_batch_size > 0
    shape = (1, *dims) if batched else dims
    if spec is not None and spec.reshape is not None:
        shape = Reshape(spec.dims, spec.reshape, batched).apply(shape)
    return Tensor(name, datatype, shape, HostBuffer(data, len(data), owned=True))


def _check_dims(who: str, dims: tuple[int, ...], spec: InputSpec | None) -> None:
    if any(dim < 0 for dim in dims):
        raise InvalidArgumentError(f"{who} has dims {list(dims)}: each must be given, none can be -1")
    if spec is None:
        return
    fits = len(dims) == len(spec.dims) and all(wanted in (-1, dim) for dim, wanted in zip(dims, spec.dims, strict=True))
    if not fits:
        raise InvalidArgumentError(f"{who} has dims {list(dims)}, the model's input has {list(spec.dims)}")


def _data(who: str, given: "SampleInput", datatype: str, dims: tuple[int, ...], model_dir: Path) -> bytes:
    """The bytes of one row. Strings have no random form: they are empty, as Triton makes them."""
    source = given.WhichOneof("input_data_type")
    if source == "input_data_file":
        return file_data(who, model_dir / WARMUP_FOLDER, given.input_data_file, datatype, dims)
    if source is None:
        raise InvalidArgumentError(f"{who} says none of zero_data, random_data and input_data_file")
    zeros = zero_data(who, datatype, dims)
    return _random_data(datatype, prod(dims)) if source == "random_data" and datatype != BYTES else zeros


def _random_data(datatype: str, elements: int) -> bytes:
    random = np.random.default_rng(0)
    dtype = DATATYPES[datatype].numpy
    if dtype.kind in "iub":
        return random.integers(0, 2 if dtype.kind == "b" else _RANDOM_INTEGER_LIMIT, elements).astype(dtype).tobytes()
    return random.random(elements).astype(dtype).tobytes()


def _who(config: ModelConfig, warmup: ModelWarmup) -> str:
    return f"warm-up sample '{warmup.name}' of model '{config.name}'"
