"""The model repositories of the measurements. The Python models run unchanged on both servers."""

from pathlib import Path

from tests.models import onnx_models

PAIR = """
input [ {{ name: "INPUT0" data_type: {0} dims: {1} }}, {{ name: "INPUT1" data_type: {0} dims: {1} }} ]
output [ {{ name: "OUTPUT0" data_type: {0} dims: {1} }}, {{ name: "OUTPUT1" data_type: {0} dims: {1} }} ]
"""
ONE = """
input [ {{ name: "{1}" data_type: {0} dims: {2} }} ]
output [ {{ name: "{3}" data_type: {0} dims: {4} }} ]
"""
ADD_SUB = """import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            a = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            b = pb_utils.get_input_tensor_by_name(request, "INPUT1").as_numpy()
            outputs = [pb_utils.Tensor("OUTPUT0", a + b), pb_utils.Tensor("OUTPUT1", a - b)]
            responses.append(pb_utils.InferenceResponse(outputs))
        return responses
"""
ECHO = """import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            array = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            responses.append(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", array)]))
        return responses
"""
MLP_NUMPY = """import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        random = np.random.default_rng(1)
        widths = (256, 1024, 1024, 10)
        self.weights = [random.standard_normal(pair).astype(np.float32) for pair in zip(widths, widths[1:])]

    def execute(self, requests):
        rows = [pb_utils.get_input_tensor_by_name(request, "input").as_numpy() for request in requests]
        hidden = np.concatenate(rows)
        for weights in self.weights[:-1]:
            hidden = np.maximum(hidden @ weights, 0)
        result = hidden @ self.weights[-1]
        answers, start = [], 0
        for row in rows:
            answers.append(pb_utils.InferenceResponse([pb_utils.Tensor("output", result[start : start + len(row)])]))
            start += len(row)
        return answers
"""
BATCHED = "max_batch_size: 64\ndynamic_batching {}\n"
ONE_CPU = "instance_group [ { count: 1 kind: KIND_CPU } ]\n"
ONE_THREAD = 'parameters { key: "intra_op_thread_count" value: { string_value: "1" } }\n'
INLINE = 'parameters { key: "execution" value: { string_value: "inline" } }\n'


def build(root: Path) -> Path:
    """Everything, under `root`; `root/python` holds what a real Triton can serve too."""
    pair = PAIR.format("TYPE_FP32", "[ 16 ]")
    python, other = root / "python", root / "charonia"
    write_python(python, "addsub_python", BATCHED + ONE_CPU + pair, ADD_SUB)
    write_python(python, "echo_4mb", ONE_CPU + ONE.format("TYPE_FP32", "INPUT0", "[ -1 ]", "OUTPUT0", "[ -1 ]"), ECHO)
    write_python(
        python, "echo_text", ONE_CPU + ONE.format("TYPE_STRING", "INPUT0", "[ -1 ]", "OUTPUT0", "[ -1 ]"), ECHO
    )
    mlp = ONE.format("TYPE_FP32", "input", "[ 256 ]", "output", "[ 10 ]")
    write_python(python, "mlp_python", BATCHED + ONE_CPU + mlp, MLP_NUMPY)
    write_python(other, "addsub_inline", BATCHED + ONE_CPU + INLINE + pair, ADD_SUB)
    write_onnx(other, "addsub_onnx", BATCHED + ONE_CPU + ONE_THREAD + pair, onnx_models.add_sub())
    write_onnx(other, "mlp_onnx", BATCHED + ONE_CPU + ONE_THREAD + mlp, onnx_models.mlp())
    conv = ONE.format("TYPE_FP32", "input", "[ 3, 224, 224 ]", "logits", "[ 1000 ]")
    two = "max_batch_size: 8\ninstance_group [ { count: 2 kind: KIND_CPU } ]\n"
    write_onnx(other, "conv_onnx", two + ONE_THREAD + conv, onnx_models.conv_net())
    return root


def write_python(repository: Path, name: str, config: str, code: str) -> None:
    folder = repository / name / "1"
    folder.mkdir(parents=True)
    (folder / "model.py").write_text(code)
    (folder.parent / "config.pbtxt").write_text('backend: "python"\n' + config)


def write_onnx(repository: Path, name: str, config: str, model: object) -> None:
    onnx_models.save(model, repository, name)
    (repository / name / "config.pbtxt").write_text('backend: "onnxruntime"\n' + config)
