"""Warm-up samples: their data, and what a failing one says."""

import os
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

from charonia.backends.warmup import warm_up, warmup_samples
from charonia.config.schema import ModelConfig
from charonia.core.clock import MonotonicClock
from charonia.core.errors import BackendError, InvalidArgumentError, UnavailableError
from charonia.core.log import SilentLog
from charonia.core.tensor import encode_bytes


def _config(sample: str, datatype: str = "TYPE_FP32", dims: str = "2", more: str = "max_batch_size: 4") -> ModelConfig:
    return text_format.Parse(
        f'name: "m" {more} input {{ name: "X" data_type: {datatype} dims: [ {dims} ] }} '
        f'model_warmup {{ name: "w" {sample} }}',
        ModelConfig(),
    )


def _input(data: str = "zero_data: true", datatype: str = "TYPE_FP32", dims: str = "2", name: str = "X") -> str:
    value = f"data_type: {datatype} dims: [ {dims} ] {data}"
    return f'inputs {{ key: "{name}" value: {{ {value} }} }} '


class _Instance:
    """Keeps the batches that it was given."""

    healthy = True

    def __init__(self, error: Exception | None = None) -> None:
        self.batches: list[list[dict[str, Any]]] = []
        self._error = error

    def start(self, batch: Any) -> None:
        if self._error is not None:
            raise self._error
        self.batches.append([{n: t.numpy() for n, t in request.inputs.items()} for request in batch.requests])
        for request in batch.requests:
            batch.respond(request, [])

    def close(self) -> None: ...


def test_zero_data_of_a_batch(tmp_path: Path) -> None:
    config = _config("batch_size: 3 count: 2 " + _input())
    instance = _Instance()
    warm_up(instance, config, warmup_samples(config, tmp_path), MonotonicClock(), SilentLog(), Event())
    assert [len(batch) for batch in instance.batches] == [3, 3]
    assert instance.batches[0][0]["X"].tolist() == [[0, 0]]


def test_no_count_means_once_and_no_batch_size_means_never(tmp_path: Path) -> None:
    (sample,) = warmup_samples(_config("batch_size: 1 " + _input()), tmp_path)
    assert sample.count == 1
    assert warmup_samples(_config(_input()), tmp_path) == []


def test_strings_are_empty(tmp_path: Path) -> None:
    for data in ("zero_data: true", "random_data: true"):
        config = _config("batch_size: 1 " + _input(data, "TYPE_STRING"), "TYPE_STRING")
        assert warmup_samples(config, tmp_path)[0].inputs[0].numpy().tolist() == [[b"", b""]]


@pytest.mark.parametrize("datatype", ["TYPE_FP16", "TYPE_BF16", "TYPE_FP64", "TYPE_INT8", "TYPE_UINT64", "TYPE_BOOL"])
def test_random_data(tmp_path: Path, datatype: str) -> None:
    config = _config("batch_size: 1 " + _input("random_data: true", datatype, "64"), datatype, "-1")
    array = warmup_samples(config, tmp_path)[0].inputs[0].numpy()
    assert array.shape == (1, 64)
    assert len({*array.ravel().tolist()}) > 1


def test_data_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "warmup").mkdir()
    (tmp_path / "warmup/x.bin").write_bytes(np.array([1.5, 2.5], np.float32).tobytes())
    config = _config("batch_size: 1 " + _input('input_data_file: "x.bin"'))
    assert warmup_samples(config, tmp_path)[0].inputs[0].numpy().tolist() == [[1.5, 2.5]]


def test_reshape_and_no_batch_dimension(tmp_path: Path) -> None:
    config = text_format.Parse(
        'name: "m" input { name: "X" data_type: TYPE_FP32 dims: [ 2, 3 ] reshape { shape: [ 6 ] } } '
        'model_warmup { name: "w" batch_size: 1 ' + _input(dims="2, 3") + "}",
        ModelConfig(),
    )
    assert warmup_samples(config, tmp_path)[0].inputs[0].shape == (6,)


@pytest.mark.parametrize(
    ("sample", "words"),
    [
        (_input(dims="-1"), r"input 'X' has dims \[-1\]"),
        (_input(dims="3"), r"input 'X' has dims \[3\], the model's input has \[2\]"),
        (_input(datatype="TYPE_INT8"), "input 'X' has data_type INT8, the model's input has FP32"),
        (_input(""), "input 'X' says none of zero_data"),
        (_input('input_data_file: "none.bin"'), "reads its data from '.*none.bin', and there is no such file"),
        (_input('input_data_file: "short.bin"'), "input 'X' needs 8 bytes, '.*short.bin' has 6"),
        ("", "has no data for input 'X'$"),
        (
            'inputs { key: "Z" value { dims: 2 zero_data: true } }',
            "no data for input 'X'; it has some for 'Z', which is no",
        ),
        (_input() + "batch_size: 5", "has batch_size 5, expected at most 4: max_batch_size is 4"),
    ],
)
def test_wrong_samples_are_named(tmp_path: Path, sample: str, words: str) -> None:
    (tmp_path / "warmup").mkdir()
    (tmp_path / "warmup/short.bin").write_bytes(b"123456")
    with pytest.raises(InvalidArgumentError, match=f"warm-up sample 'w' of model 'm'.*{words}"):
        warmup_samples(_config("batch_size: 1 " * ("batch_size" not in sample) + sample), tmp_path)


def test_strings_of_a_file_are_counted(tmp_path: Path) -> None:
    (tmp_path / "warmup").mkdir()
    (tmp_path / "warmup/x.bin").write_bytes(encode_bytes([b"a", b"b", b"c"]))
    config = _config("batch_size: 1 " + _input('input_data_file: "x.bin"', "TYPE_STRING"), "TYPE_STRING")
    with pytest.raises(InvalidArgumentError, match=r"needs 2 strings, '.*x\.bin' has 3"):
        warmup_samples(config, tmp_path)


@pytest.mark.parametrize("error", [ValueError("on purpose"), BackendError("on purpose")])
def test_a_model_that_fails(tmp_path: Path, error: Exception) -> None:
    config = _config("batch_size: 2 " + _input())
    with pytest.raises(BackendError, match=r"model 'm' failed to run warmup sample 'w': .*on purpose"):
        warm_up(_Instance(error), config, warmup_samples(config, tmp_path), MonotonicClock(), SilentLog(), Event())


def test_a_pipe_keeps_nobody_waiting(tmp_path: Path) -> None:
    (tmp_path / "warmup").mkdir()
    os.mkfifo(tmp_path / "warmup/x.bin")
    with pytest.raises(InvalidArgumentError, match="a pipe or a device"):
        warmup_samples(_config("batch_size: 1 " + _input('input_data_file: "x.bin"')), tmp_path)


@pytest.mark.parametrize("dims", [2**40, 2**62])
@pytest.mark.parametrize("data", ["zero_data: true", "random_data: true"])
@pytest.mark.parametrize(("datatype", "item"), [("TYPE_FP32", 4), ("TYPE_STRING", 4)])
def test_dims_that_fit_no_memory(tmp_path: Path, dims: int, data: str, datatype: str, item: int) -> None:
    config = _config("batch_size: 1 " + _input(data, datatype, str(dims)), datatype, "-1")
    said = rf"sample 'w' of model 'm', input 'X' has dims \[{dims}\]: these are {dims * item} bytes, more than there is"
    with pytest.raises(InvalidArgumentError, match=said):
        warmup_samples(config, tmp_path)


def test_a_stop_ends_the_longest_warm_up(tmp_path: Path) -> None:
    config = _config("batch_size: 1 count: 4294967295 " + _input())
    stopping, instance = Event(), _Instance()
    start = instance.start

    def third_stops(batch: Any) -> None:
        start(batch)
        if len(instance.batches) == 3:
            stopping.set()

    instance.start = third_stops  # type: ignore[method-assign]
    with pytest.raises(UnavailableError, match=r"the server is stopping \(warmup sample 'w' ran 3 of 4294967295 times"):
        warm_up(instance, config, warmup_samples(config, tmp_path), MonotonicClock(), SilentLog(), stopping)
    assert len(instance.batches) == 3


@pytest.mark.parametrize(("more", "shape"), [("max_batch_size: 4", (1, 1)), ("", (1,))])
def test_controls_and_states_stand_in_the_sample_like_inputs(tmp_path: Path, more: str, shape: tuple[int, ...]) -> None:
    """They are no inputs of the configuration, and have a batch dimension all the same."""
    given = "".join(
        _input(dims="1", datatype=kind, name=name) for name, kind in (("START", "TYPE_INT32"), ("STATE", "TYPE_FP32"))
    )
    config = _config("batch_size: 1 " + _input() + given, more=more)
    (sample,) = warmup_samples(config, tmp_path)
    assert [(tensor.name, tensor.datatype, tensor.shape) for tensor in sample.inputs[1:]] == [
        ("START", "INT32", shape),
        ("STATE", "FP32", shape),
    ]
