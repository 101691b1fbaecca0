"""Loading: what can be wrong with a file, a configuration or the installation, and what the message says then."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import onnx_models
import onnxruntime
import pytest

from charonia.backends.onnxruntime import OnnxRuntimeBackend, runtime
from charonia.core.errors import (
    CharoniaError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    UnsupportedError,
)

VERSION = f"ONNX Runtime {onnxruntime.__version__}"
CONFIG = 'name: "m" backend: "onnxruntime" '
_IO = "data_type: TYPE_FP32 dims: [ -1 ]"
PAIR = f'input {{ name: "INPUT0" {_IO} }} output {{ name: "OUTPUT0" {_IO} }}'


@pytest.fixture
def load_fails(context_for: Any, parse: Any, spec: Any) -> Callable[..., CharoniaError]:
    """The error of loading whatever lies in `<tmp>/m`."""

    def run(config: str = "") -> CharoniaError:
        backend = OnnxRuntimeBackend()

        def load() -> None:
            context = context_for(parse(CONFIG + config))
            backend.load(context_for(backend.complete_config(context))).create_instance(spec)

        with pytest.raises(CharoniaError) as caught:
            load()
        return caught.value

    return run


def test_no_model_file_lists_what_is_there(tmp_path: Path, load_fails: Any) -> None:
    onnx_models.save(onnx_models.identity(), tmp_path, "m", filename="net.onnx")
    (tmp_path / "m/1/notes.txt").touch()
    error = load_fails()
    assert isinstance(error, NotFoundError)
    assert "no 'model.onnx'" in str(error)
    assert "net.onnx, notes.txt" in str(error)
    assert 'default_model_filename: "net.onnx"' in str(error)


def test_a_model_file_beside_the_version_folder(tmp_path: Path, load_fails: Any) -> None:
    onnx_models.save(onnx_models.identity(), tmp_path, "m").rename(tmp_path / "m/model.onnx")
    assert "move it into '1/'" in str(load_fails())


def test_default_model_filename_and_folders(tmp_path: Path, context_for: Any, parse: Any) -> None:
    onnx_models.save(onnx_models.identity(), tmp_path, "m", filename="net/model.onnx")
    config = parse(f'{CONFIG} default_model_filename: "net" {PAIR}')
    assert OnnxRuntimeBackend().load(context_for(config)) is not None


def test_missing_external_weights_are_named(tmp_path: Path, load_fails: Any) -> None:
    path = onnx_models.external_weights(tmp_path, "m")
    (path.parent / "weights.bin").unlink()
    error = load_fails()
    assert isinstance(error, InvalidArgumentError)
    assert "copy 'weights.bin' into '1/'" in str(error)


def test_external_weights_that_are_cut_off(tmp_path: Path, load_fails: Any) -> None:
    path = onnx_models.external_weights(tmp_path, "m")
    (path.parent / "weights.bin").write_bytes(b"123")
    assert "weights of 'w' is shorter" in str(load_fails())


def test_external_weights_load(tmp_path: Path, context_for: Any, parse: Any, spec: Any) -> None:
    onnx_models.external_weights(tmp_path, "m")
    backend = OnnxRuntimeBackend()
    context = context_for(backend.complete_config(context_for(parse(CONFIG))))
    backend.load(context).create_instance(spec).close()


@pytest.mark.parametrize(
    ("kept_bytes", "says"), [(0, "the file is empty"), (40, "the file was cut off: it has 40 bytes")]
)
def test_a_damaged_file(tmp_path: Path, load_fails: Any, kept_bytes: int, says: str) -> None:
    path = onnx_models.save(onnx_models.mlp(), tmp_path, "m")
    path.write_bytes(path.read_bytes()[:kept_bytes])
    error = load_fails()
    assert isinstance(error, InvalidArgumentError)
    assert says in str(error)


def _too_new_opset(model: onnx.ModelProto) -> None:
    model.opset_import[0].version = 99


def _too_new_format(model: onnx.ModelProto) -> None:
    model.ir_version = 99


def _unknown_operator(model: onnx.ModelProto) -> None:
    model.graph.node[0].op_type = "Frobnicate"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (_too_new_opset, ["opset 99 of ai.onnx", VERSION, "opsets up to", "pip install --upgrade onnxruntime"]),
        (_too_new_format, ["IR version 99", VERSION, "versions up to", "pip install --upgrade onnxruntime"]),
        (_unknown_operator, ["operator 'Frobnicate'", "op_library_filename"]),
    ],
)
def test_models_that_this_runtime_does_not_know(
    tmp_path: Path, load_fails: Any, change: Callable[[onnx.ModelProto], None], words: list[str]
) -> None:
    model = onnx_models.identity()
    change(model)
    onnx_models.save(model, tmp_path, "m")
    error = load_fails()
    assert isinstance(error, InvalidArgumentError)
    for word in words:
        assert word in str(error)
    assert "onnxruntime_src" not in str(error)


def test_types_that_no_datatype_carries(tmp_path: Path, load_fails: Any) -> None:
    onnx_models.save(onnx_models.sequence(), tmp_path, "m")
    error = load_fails()
    assert isinstance(error, UnsupportedError)
    assert "output 'PARTS' has type seq(tensor(float))" in str(error)
    assert "plain tensors" in str(error)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ('max_batch_size: 16 input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 4, 16 ] }', "max_batch_size"),
        ('input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 8, 17 ] }', "INPUT0"),
        ('max_batch_size: 4 input { name: "IN" data_type: TYPE_FP32 dims: [ 16 ] }', "INPUT0"),
        ('max_batch_size: 4 input { name: "INPUT0" data_type: TYPE_INT8 dims: [ 16 ] }', "FP32"),
        ('max_batch_size: 4 input { name: "INPUT0" data_type: TYPE_FP32 dims: [ 17 ] }', "17"),
    ],
)
@pytest.mark.parametrize("complete", [True, False])
def test_a_configuration_that_contradicts_the_model(
    tmp_path: Path, load_fails: Any, config: str, words: str, complete: bool
) -> None:
    """Found when it is completed, and also when it says so much that nothing is completed."""
    onnx_models.save(onnx_models.identity("FP32", ["N", 16]), tmp_path, "m")
    batched = "max_batch_size" in config
    output = f'output {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ {"16" if batched else "-1, 16"} ] }}'
    error = load_fails(config + (output if complete else ""))
    assert isinstance(error, InvalidArgumentError)
    assert words in str(error)
    assert "model.onnx" in str(error)


def test_names_of_outputs_are_known_also_to_a_configuration_that_has_them_all_wrong(
    tmp_path: Path, load_fails: Any
) -> None:
    onnx_models.save(onnx_models.identity("FP32", ["N", 16]), tmp_path, "m")
    error = load_fails('input { name: "INPUT0" } output { name: "OUTPUT" data_type: TYPE_FP32 dims: [ -1, 16 ] }')
    assert "model.onnx has no output 'OUTPUT'; its outputs are OUTPUT0; write name: \"OUTPUT0\"" in str(error)


def test_a_configuration_that_lists_only_inputs_gets_its_outputs(tmp_path: Path, context_for: Any, parse: Any) -> None:
    onnx_models.save(onnx_models.identity("FP32", ["N", 16]), tmp_path, "m")
    text = f'{CONFIG} max_batch_size: 4 input {{ name: "INPUT0" data_type: TYPE_FP32 dims: [ 16 ] }}'
    config = OnnxRuntimeBackend().complete_config(context_for(parse(text)))
    assert [(io.name, list(io.dims)) for io in config.output] == [("OUTPUT0", [16])]


def test_runtime_not_installed(monkeypatch: pytest.MonkeyPatch, context_for: Any, parse: Any, tmp_path: Path) -> None:
    onnx_models.save(onnx_models.identity(), tmp_path, "m")

    def missing(name: str) -> Any:
        raise ModuleNotFoundError(f"No module named '{name}'")

    monkeypatch.setattr(runtime.importlib, "import_module", missing)
    monkeypatch.setattr(runtime, "installed_packages", list)
    with pytest.raises(UnavailableError, match=r"pip install 'charonia\[cpu\]'"):
        OnnxRuntimeBackend().load(context_for(parse(CONFIG)))


def test_both_packages_are_a_warning_with_the_command(
    monkeypatch: pytest.MonkeyPatch, context_for: Any, parse: Any, tmp_path: Path, log: Any
) -> None:
    onnx_models.save(onnx_models.identity(), tmp_path, "m")
    monkeypatch.setattr(runtime, "installed_packages", lambda: ["onnxruntime", "onnxruntime-gpu"])
    backend = OnnxRuntimeBackend()
    for _ in range(2):
        backend.load(context_for(parse(CONFIG)))
    (warning,) = log.of("warning")
    assert "pip uninstall -y onnxruntime onnxruntime-gpu && pip install onnxruntime-gpu" in warning


def test_a_complete_configuration_is_not_opened_for(context_for: Any, parse: Any) -> None:
    config = parse(CONFIG + PAIR)
    assert OnnxRuntimeBackend().complete_config(context_for(config)) is config
