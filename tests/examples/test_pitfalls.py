"""W4: what people get wrong in a repository. Each refusal says what is wrong, where, and what to write instead.

The server's load error and `charonia check` say the same: most tests ask both.
"""

import sys
import zipfile

import httpx
import numpy as np
import pytest

from charonia.api import Server
from charonia.cli.check import run_check
from charonia.core.errors import CharoniaError
from tests.models import onnx_models
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_config, write_python_model


def net():
    return onnx_models.conv_net(classes=10, side=32)


def config(size, name, datatype, dims, classes):
    return f"""
        max_batch_size: {size}
        input [ {{ name: "{name}" data_type: {datatype} dims: {dims} }} ]
        output [ {{ name: "logits" data_type: TYPE_FP32 dims: {classes} }} ]
    """


IMAGE = [3, 32, 32]
WRONG = {
    "dims with the batch dimension": (
        config(16, "input", "TYPE_FP32", [-1, *IMAGE], [-1, 10]),
        (
            "config.pbtxt:3:",
            "dims of input 'input' are [-1, 3, 32, 32] with the batch dimension",
            "max_batch_size is 16 (line 2)",
            "write dims: [3, 32, 32]",
            "output 'logits'",
        ),
    ),
    "dims with a fixed batch dimension": (
        config(16, "input", "TYPE_FP32", [1, *IMAGE], [1, 10]),
        ("[1, 3, 32, 32] with the batch dimension", "write dims: [3, 32, 32]"),
    ),
    "dims without the batch dimension": (
        config(0, "input", "TYPE_FP32", IMAGE, [10]),
        ("[3, 32, 32] without the batch dimension", "max_batch_size is 0", "dims: [-1, 3, 32, 32]"),
    ),
    "a wrong name": (
        config(16, "images", "TYPE_FP32", IMAGE, [10]),
        ("config.pbtxt:3:", "no input 'images'", "its inputs are input", 'write name: "input"'),
    ),
    "a wrong datatype": (
        config(16, "input", "TYPE_FP16", IMAGE, [10]),
        ("config.pbtxt:3:", "'input' is TYPE_FP16", "has TYPE_FP32", "write data_type: TYPE_FP32"),
    ),
    "wrong dims": (
        config(16, "input", "TYPE_FP32", [3, 64, 64], [10]),
        ("[3, 64, 64]", "[-1, 3, 32, 32]", "dimension 2 is 32, not 64", "write dims: [3, 32, 32]"),
    ),
}


def reason(repository):
    """Why the one model of the repository does not serve."""
    with pytest.raises(CharoniaError) as refused, Server(repository, log_error=False, log_warning=False):
        pass
    return str(refused.value)


@pytest.fixture
def checked(capsys):
    """Runs `charonia check`: its exit code, and what it prints in one line."""

    def run(repository):
        code = run_check([str(repository)], (), load=False, as_json=False, strict=False)
        return code, " ".join(capsys.readouterr().out.split())

    return run


@pytest.fixture
def refused(checked):
    """Both the server and the check refuse the repository, with each of these words."""

    def run(repository, *words):
        code, printed = checked(repository)
        assert code == 1
        for said in (reason(repository), printed):
            for each in words:
                assert each in said

    return run


@pytest.mark.parametrize("case", WRONG)
def test_a_configuration_that_contradicts_the_model(repository, refused, case):
    text, named = WRONG[case]
    onnx_models.save(net(), repository, "classifier")
    write_config(repository, "classifier", text)
    refused(repository, "classifier", "model.onnx", *named)


def test_no_configuration_at_all_serves(repository):
    onnx_models.save(net(), repository, "classifier")
    with Server(repository) as server:
        assert server.model("classifier").infer(input=np.zeros((2, 3, 32, 32), np.float32))["logits"].shape == (2, 10)
        assert server.model("classifier").config.max_batch_size > 0


@pytest.mark.parametrize("text", ["max_batch_size: 16", None])
def test_a_misnamed_model_file(repository, refused, text):
    onnx_models.save(net(), repository, "classifier", filename="densenet.onnx")
    if text:
        write_config(repository, "classifier", text)
    refused(repository, "classifier/1/densenet.onnx", "'model.onnx'", 'default_model_filename: "densenet.onnx"')


def test_the_model_file_that_the_configuration_names_has_another_name(repository, refused):
    onnx_models.save(net(), repository, "classifier")
    write_config(repository, "classifier", 'backend: "onnxruntime" default_model_filename: "densenet.onnx"')
    refused(repository, "no 'densenet.onnx'", f"{repository}/classifier/1", "the folder holds model.onnx", "rename")


@pytest.mark.parametrize("text", ['platform: "onnxruntime_onnx"', None])
@pytest.mark.parametrize("name", ["model.onnx", "densenet.onnx"])
def test_a_model_file_beside_the_version_folder(repository, refused, text, name):
    (repository / "classifier").mkdir()
    (repository / "classifier" / name).write_bytes(net().SerializeToString())
    if text:
        write_config(repository, "classifier", text)
    refused(repository, name, "has no version folder", f"{repository}/classifier/1/{name}")


def test_no_version_folder(repository, refused):
    write_config(repository, "classifier", 'platform: "onnxruntime_onnx"')
    phrase = "at least one version must be available under the version policy of model 'classifier'"
    refused(repository, "has no version folder", f"make the folder '{repository}/classifier/1'", phrase)


@pytest.mark.parametrize("folder", ["v1", "V1", "version1", "01"])
def test_a_folder_that_was_meant_as_a_version(repository, refused, folder):
    onnx_models.save(net(), repository, "classifier")
    (repository / "classifier" / "1").rename(repository / "classifier" / folder)
    refused(repository, f"{repository}/classifier/{folder}", f"folder '{folder}' is ignored", "rename it to '1'")


def test_the_reason_for_no_version_is_what_lies_in_its_place(repository, refused):
    onnx_models.save(net(), repository, "classifier")
    (repository / "classifier" / "config.pbtxt.txt").write_text("max_batch_size: 8")
    (repository / "classifier" / "1").rename(repository / "classifier" / "v1")
    refused(
        repository, "has no version folder: folder 'v1' is ignored", "rename it to '1'", "rename it to config.pbtxt"
    )


def test_a_model_one_folder_too_deep(repository, refused):
    onnx_models.save(net(), repository / "classifier", "classifier")
    refused(repository, "one folder too deep", f"{repository}/classifier/classifier", "up into 'classifier'")


def test_a_file_that_no_backend_knows(repository, refused):
    (repository / "classifier" / "1").mkdir(parents=True)
    (repository / "classifier" / "1" / "weights.bin").write_bytes(b"?")
    refused(repository, "classifier", "weights.bin", "model.onnx", "model.py", "backend")


def test_a_spelling_mistake_in_the_configuration(repository, refused):
    onnx_models.save(net(), repository, "classifier")
    write_config(repository, "classifier", "max_batch_sise: 8")
    refused(repository, "config.pbtxt:1:1", "max_batch_sise", "max_batch_size")


def test_a_folder_of_another_name_than_the_model(repository, refused):
    onnx_models.save(net(), repository, "classifier")
    write_config(repository, "classifier", 'name: "densenet"')
    refused(repository, "config.pbtxt:1:1", 'name is "densenet"', "folder is 'classifier'", 'write name: "classifier"')


BACKENDS = {
    "tensorrt": ("GPU type", "TensorRT version", "pip install tensorrt", "ONNX", "large language model"),
    "pytorch": ("pip install torch", "torch.onnx.export", "backend 'python'"),
    "tensorflow": ("pip install tf2onnx", "backend 'onnxruntime'"),
    "openvino": ("pip install openvino", "cpu_execution_accelerator openvino"),
    "vllm": ("decoupled", "pip install vllm"),
    "fil": ("backend 'python'", "ONNX"),
    "dali": ("backend 'python'", "no backend for DALI"),
    "onnx": ("did you mean 'onnxruntime'?",),
    "pyhton": ("did you mean 'python'?",),
    "nobodys": ("charonia.backends", "nobodys/model.py"),
}


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_backend_that_is_not_installed(repository, refused, backend):
    (repository / "classifier" / "1").mkdir(parents=True)
    (repository / "classifier" / "1" / "model.bin").write_bytes(bytes(100))
    platforms = {"tensorrt": "tensorrt_plan", "pytorch": "pytorch_libtorch", "tensorflow": "tensorflow_savedmodel"}
    platform = f'platform: "{platforms[backend]}"' if backend in platforms else ""
    write_config(repository, "classifier", f'backend: "{backend}" {platform}')
    refused(
        repository,
        "config.pbtxt:1:1",
        f"backend '{backend}' is not installed (installed are identity, onnxruntime, python)",
        *BACKENDS[backend],
    )


def test_an_operator_set_and_a_format_that_are_too_new(repository, refused):
    model = net()
    model.opset_import[0].version = 99
    onnx_models.save(model, repository, "classifier")
    refused(repository, "classifier/1/model.onnx", "opset 99", "pip install --upgrade onnxruntime", "export the model")
    model = net()
    model.ir_version = 99
    onnx_models.save(model, repository, "classifier")
    refused(repository, "classifier/1/model.onnx", "IR version 99", "pip install --upgrade onnxruntime")


def test_weights_that_are_missing_or_were_not_fetched(repository, refused):
    path = onnx_models.external_weights(repository, "classifier")
    weights = path.with_name("weights.bin")
    weights.write_text(LFS.partition("oid")[0])
    refused(repository, str(weights), "Git LFS pointer", "git lfs pull")
    weights.unlink()
    refused(
        repository,
        str(path),
        "stored beside it in 'weights.bin', which is missing",
        f"copy 'weights.bin' to '{weights}'",
    )


LFS = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 102400000\n"


def torchscript(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("net/code/__torch__.py", "")
        archive.writestr("net/data.pkl", "")


def archived(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("densenet/model.onnx", "")


IMPOSTORS = {
    "a Git LFS pointer": (lambda path: path.write_text(LFS), ("Git LFS pointer", "102,400,000 bytes", "git lfs pull")),
    "a web page": (lambda path: path.write_text("<!DOCTYPE html><html>"), ("web page (HTML)", "download it again")),
    "an archive": (archived, ("zip archive", "unpack it")),
    "TorchScript": (torchscript, ("TorchScript", "torch.onnx.export", "backend 'python'")),
    "half of it": (
        lambda path: path.write_bytes(net().SerializeToString()[:20_000]),
        ("was cut off", "20,000 bytes", "copy or download it again"),
    ),
    "nothing": (lambda path: path.write_bytes(b""), ("the file is empty", "copy it again")),
    "text": (lambda path: path.write_text("coming soon"), ("plain text", "real model file")),
}


@pytest.mark.parametrize("case", IMPOSTORS)
def test_another_file_in_the_place_of_the_model(repository, refused, case):
    put, named = IMPOSTORS[case]
    put(onnx_models.save(net(), repository, "classifier"))
    refused(repository, f"{repository}/classifier/1/model.onnx", *named)


IGNORED = {
    "config.pbtxt.txt": ("rename it to config.pbtxt",),
    "config.json": ("write it as protobuf text into config.pbtxt",),
    "1/config.pbtxt": ("move it to '", "/classifier/config.pbtxt'"),
}


@pytest.mark.parametrize("name", IGNORED)
def test_a_configuration_that_nothing_reads(repository, checked, refused, name):
    onnx_models.save(net(), repository, "classifier")
    (repository / "classifier" / name).write_text('default_model_filename: "densenet.onnx"')
    code, printed = checked(repository)
    assert code == 0
    words = (f"{repository}/classifier/{name}", "this file is ignored", *IGNORED[name])
    for each in words:
        assert each in printed
    (repository / "classifier" / "1" / "model.onnx").rename(repository / "classifier" / "1" / "densenet.onnx")
    refused(repository, "nothing tells which backend", *words)


@pytest.mark.parametrize("given", ["classifier", "classifier/1"])
def test_a_model_or_a_version_given_as_the_repository(repository, checked, given):
    onnx_models.save(net(), repository, "classifier")
    code, printed = checked(repository / given)
    assert code == 1
    assert f"give --model-repository={repository}" in printed


def test_a_model_given_as_the_repository_does_not_start(repository):
    onnx_models.save(net(), repository, "classifier")
    assert f"give --model-repository={repository}" in reason(repository / "classifier")


@pytest.mark.parametrize(
    ("name", "said"), [("classifier/1/model.onnx", "it is a file"), ("nowhere", "it does not exist")]
)
def test_a_repository_that_is_no_folder(repository, refused, name, said):
    onnx_models.save(net(), repository, "classifier")
    refused(repository / name, f"model repository folder '{repository}/{name}' can't be read: {said}")


def test_an_empty_repository(repository, checked):
    code, printed = checked(repository)
    assert code == 1
    for each in ("no model in this repository", str(repository), "<model>/1/model.onnx"):
        assert each in printed


PYTHON = """
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
    output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""
CODE = """
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def initialize(self, args):
            pass

        def execute(self, requests):
            return [self.answer(pb_utils.get_input_tensor_by_name(request, "IN")) for request in requests]

        def answer(self, tensor):
            return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", tensor.as_numpy())])
"""
WRONG_CODE = {
    "a class of another name": (
        ("TritonPythonModel", "TritonPythonmodel"),
        ("model.py:4:1", "no class named TritonPythonModel", "it has 'TritonPythonmodel'", "name that class"),
    ),
    "a misspelt execute": (
        ("def execute(", "def excute("),
        ("model.py:8:5", "no method named execute", "it has 'excute'", "name it execute"),
    ),
    "a syntax error": (("requests):", "requests)"), ("model.py:8:32", "SyntaxError")),
    "a package that is not installed": (
        ("import triton", "import sklearn\n    import triton"),
        ("model.py:2:1", "'sklearn' is not installed", f"{sys.executable} -m pip install scikit-learn"),
    ),
    "initialize without args": (("(self, args)", "(self)"), ("model.py:5:5", "called as initialize(self, args)")),
}


@pytest.mark.parametrize("case", WRONG_CODE)
def test_a_python_model_that_can_not_be_loaded(repository, refused, case):
    change, named = WRONG_CODE[case]
    assert change[0] in CODE
    write_python_model(repository, "doubles", PYTHON, CODE.replace(*change))
    refused(repository, "doubles/1/", *named)


def test_a_python_model_without_its_file(repository, refused):
    write_python_model(repository, "doubles", PYTHON, CODE)
    (repository / "doubles" / "1" / "model.py").rename(repository / "doubles" / "1" / "doubles.py")
    refused(repository, f"{repository}/doubles/1", "the folder holds doubles.py", "rename 'doubles.py' to 'model.py'")


def test_a_python_model_without_a_configuration_is_told_what_to_write(repository, checked):
    write_python_model(repository, "doubles", "", CODE)
    (repository / "doubles" / "config.pbtxt").unlink()
    code, printed = checked(repository)
    assert code == 0
    for each in ("no inputs and no outputs", f"{repository}/doubles/config.pbtxt", 'name: "IN"', 'name: "OUT"'):
        assert each in printed


def test_a_python_model_without_outputs_says_what_came_and_what_is_known(repository):
    write_python_model(
        repository,
        "doubles",
        """
        max_batch_size: 8
        input [ { name: "input" data_type: TYPE_FP32 dims: [ -1 ] } ]
        output [ { name: "output" data_type: TYPE_FP32 dims: [ -1 ] } ]
        parameters { key: "execution" value { string_value: "inline" } }
        """,
        """
        import triton_python_backend_utils as pb_utils

        class TritonPythonModel:
            def execute(self, requests):
                array = pb_utils.get_input_tensor_by_name(requests[0], "input").as_numpy()
                return [pb_utils.InferenceResponse([pb_utils.Tensor("result", array)])]
        """,
    )
    with Server(repository) as server, pytest.raises(CharoniaError) as refused:
        server.model("doubles").infer(input=np.zeros((1, 2), np.float32))
    for named in ("doubles", "result", "output"):
        assert named in str(refused.value)


WHOLE = """
    backend: "onnxruntime"
    max_batch_size: 32
    input [ { name: "input" data_type: TYPE_FP32 dims: [ 16 ] } ]
    output [ { name: "output" data_type: TYPE_FP32 dims: [ 4 ] } ]
"""


@pytest.mark.parametrize(
    ("text", "sizes"),
    [(WHOLE, {1: 20}), (WHOLE + "dynamic_batching { }", {20: 1}), ("max_batch_size: 32", {20: 1})],
    ids=["not set", "set", "completed from the model"],
)
def test_statistics_show_whether_requests_join(repository, monkeypatch, text, sizes):
    monkeypatch.setenv("TRITONSERVER_DELAY_SCHEDULER", "20")
    onnx_models.save(onnx_models.mlp((16, 8, 4)), repository, "plain")
    write_config(repository, "plain", text)
    with Server(repository) as server:
        model = server.model("plain")
        futures = [model.submit({"input": np.zeros((1, 16), np.float32)}) for _ in range(20)]
        for future in futures:
            future.result(PATIENCE_S)
        counted = model.statistics()
    assert counted.inference_count == 20
    assert {batch.batch_size: batch.compute_infer.count for batch in counted.batches} == sizes


@pytest.mark.parametrize("verb", ["load", "unload"])
def test_hot_loading_under_control_mode_none_is_refused_with_a_reason(repository, verb):
    onnx_models.save(net(), repository, "classifier")
    with Server(repository, http_port=0) as server:
        url = f"http://127.0.0.1:{server.ports['http']}/v2/repository/models/classifier/{verb}"
        answer = httpx.post(url, verify=False, timeout=PATIENCE_S)
        assert answer.status_code >= 400
        for named in ("classifier", "explicit model load / unload is not allowed"):
            assert named in answer.json()["error"]
        assert server.model("classifier").ready


def test_a_request_without_the_batch_dimension_is_told_to_add_it(repository):
    onnx_models.save(net(), repository, "classifier")
    with Server(repository) as server, pytest.raises(CharoniaError) as refused:
        server.model("classifier").infer(input=np.zeros((3, 32, 32), np.float32))
    for named in ("'input'", "'classifier'", "[-1,3,32,32]", "[3,32,32]", "batch dimension", "put 1 in front"):
        assert named in str(refused.value)


def test_the_log_of_a_failed_start_names_the_check(repository, serve):
    onnx_models.save(net(), repository, "classifier")
    write_config(repository, "classifier", "max_batch_sise: 8")
    server = serve(f"--model-repository={repository}")
    assert server.exit_code() == 1
    assert f"'charonia check {repository}' shows all that is wrong" in server.text
