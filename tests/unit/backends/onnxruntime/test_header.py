"""An ONNX file's header says what a session would say, without loading the model."""

import os
import resource
import sys
from pathlib import Path

import onnx
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from charonia.backends.onnxruntime.header import read_header
from charonia.backends.onnxruntime.protobuf import Malformed, encoded, fields, signed
from charonia.backends.onnxruntime.signature import signature_of
from tests.models import onnx_models

MODELS = {
    "scalar": onnx_models.scalar(),
    "scalar rows": onnx_models.scalar_rows(),
    "an optional input": onnx_models.optional_bias(),
    "weights": onnx_models.mlp(),
    "many nodes": onnx_models.conv_net(classes=10, side=32),
    "fixed dims": onnx_models.identity(dims=[1, 3, None]),
    **{name: onnx_models.identity(name) for name in onnx_models.ONNX_TYPES},
}


@pytest.mark.parametrize("name", MODELS)
def test_says_what_the_session_says(tmp_path: Path, name: str) -> None:
    path = onnx_models.save(MODELS[name], tmp_path, "m")
    header = read_header(path)
    session = signature_of(onnxruntime.InferenceSession(str(path)), "m")
    inputs, outputs = header.signature()
    assert tuple(inputs) == session.inputs
    assert tuple(outputs) == session.outputs
    assert header.ir_version == onnx_models.IR_VERSION
    assert header.opsets == {"": onnx_models.OPSET}


def test_what_is_no_tensor_has_no_datatype(tmp_path: Path) -> None:
    header = read_header(onnx_models.save(onnx_models.sequence(), tmp_path, "m"))
    assert [tensor.datatype for tensor in header.signature()[1]] == [""]


def test_a_shape_that_the_file_leaves_open(tmp_path: Path) -> None:
    model = onnx_models.identity()
    model.graph.output[0].type.tensor_type.ClearField("shape")
    assert read_header(onnx_models.save(model, tmp_path, "m")).shapeless == {"OUTPUT0"}


def test_external_weights(tmp_path: Path) -> None:
    (data,) = read_header(onnx_models.external_weights(tmp_path, "m")).external
    assert (data.tensor, data.location, data.end) == ("w", "weights.bin", 64)


@pytest.mark.parametrize(("versions", "reads"), [({}, True), ({"opset": 99}, False), ({"ir": 99}, False)])
def test_the_smallest_model_has_the_versions_of_the_whole_one(
    tmp_path: Path, versions: dict[str, int], reads: bool
) -> None:
    model = onnx_models.mlp()
    model.opset_import[0].version = versions.get("opset", onnx_models.OPSET)
    model.ir_version = versions.get("ir", onnx_models.IR_VERSION)
    smallest = read_header(onnx_models.save(model, tmp_path, "m")).smallest_model()
    assert onnx.load_from_string(smallest).ir_version == model.ir_version
    try:
        onnxruntime.InferenceSession(smallest)
    except Exception:
        assert not reads
    else:
        assert reads


def test_every_cut_is_noticed_and_says_how_much_is_missing(tmp_path: Path) -> None:
    path = onnx_models.save(onnx_models.mlp((4, 4)), tmp_path, "m")
    whole = path.read_bytes()
    unnoticed = [kept for kept in range(len(whole)) if _needs(path, whole[:kept]) > len(whole)]
    # Only what comes after the graph may be missing without a word: the versions of the operators.
    assert all(kept >= len(whole) - 10 for kept in unnoticed)


def _needs(path: Path, data: bytes) -> float:
    """How many bytes the cut file says that it needs; more than any when nothing is noticed."""
    path.write_bytes(data)
    try:
        read_header(path)
    except Malformed as malformed:
        return malformed.needs
    return float("inf")


SMALL = onnx_models.mlp((2, 2)).SerializeToString(deterministic=True)
DAMAGED = st.builds(
    lambda at, put: SMALL[:at] + put + SMALL[at + len(put) :],
    st.integers(0, len(SMALL) - 1),
    st.binary(min_size=1, max_size=4),
)


@settings(deadline=None)
@given(st.binary(max_size=200) | DAMAGED)
def test_no_bytes_are_too_odd(data: bytes) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("charonia.backends.onnxruntime.header.mapped", lambda path: memoryview(data))
        try:
            read_header(Path("any"))
        except Malformed:
            pass


@pytest.mark.skipif(sys.platform != "linux", reason="needs sparse files")
def test_three_gigabytes_are_not_read(tmp_path: Path) -> None:
    size = 3 << 30
    name = encoded(8, b"w")
    weight_size = len(name) + len(_opened(9, size)) + size
    before = encoded(1, 8)
    weight = _opened(5, weight_size) + name + _opened(9, size)
    output = encoded(12, encoded(1, b"y"))
    path = tmp_path / "model.onnx"
    with path.open("wb") as file:
        file.write(before + _opened(7, len(_opened(5, weight_size)) + weight_size + len(output)) + weight)
        file.seek(size, os.SEEK_CUR)
        file.write(output)
    peak_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    header = read_header(path)
    assert header.initializers == {"w"}
    assert [tensor.name for tensor in header.outputs] == ["y"]
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak_kib < 50_000


def _opened(number: int, size: int) -> bytes:
    """The beginning of a field whose `size` bytes follow."""
    tag, length = encoded(number, b"")[:1], encoded(1, size)[1:]
    return tag + length


def test_numbers_of_all_sizes() -> None:
    for value in (0, 1, 127, 128, 2**31, 2**63, 2**64 - 1):
        assert list(fields(memoryview(encoded(5, value)))) == [(5, value)]
    assert signed(2**64 - 1) == -1
