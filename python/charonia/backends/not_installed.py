"""What to say when a model asks for a backend that is not there."""

import difflib
from collections.abc import Sequence
from pathlib import Path

from charonia.core.errors import NotFoundError

_TO_ONNX = "or convert the model to ONNX and serve it with backend 'onnxruntime'"

# What a Triton user may bring a model for, and what there is to do about it here.
_ADVICE = {
    "tensorrt": (
        "an engine (.plan) runs only on the GPU type and with the TensorRT version that it was built for: install "
        f"TensorRT in just that version (pip install tensorrt) and a backend package that serves it, {_TO_ONNX}; "
        "a large language model needs an engine such as vllm, not this backend"
    ),
    "tensorrtllm": "install TensorRT-LLM (pip install tensorrt-llm) and its backend folder in the backend directory",
    "pytorch": f"write a model.py that loads it (backend 'python', pip install torch), {_TO_ONNX} (torch.onnx.export)",
    "tensorflow": "convert the model to ONNX (pip install tf2onnx) and serve it with backend 'onnxruntime'",
    "openvino": (
        "write a model.py that loads it (backend 'python', pip install openvino), or for an ONNX model use backend "
        "'onnxruntime' with cpu_execution_accelerator openvino"
    ),
    "vllm": (
        "write a decoupled model.py that runs the engine and answers by response senders (backend 'python', "
        "pip install vllm)"
    ),
    "fil": f"write a model.py that predicts with the forest's own library (backend 'python'), {_TO_ONNX}",
    "dali": "write a model.py that runs the pipeline (backend 'python'), there is no backend for DALI",
}
_SYNONYMS = {"torch": "pytorch", "trt": "tensorrt", "tensorrt_llm": "tensorrtllm", "onnx": "onnxruntime"}


class BackendMissingError(NotFoundError):
    """`message` says that it is not there, `remedy` what to do; the text is both."""

    def __init__(self, message: str, remedy: str) -> None:
        super().__init__(f"{message}: {remedy}")
        self.message = message
        self.remedy = remedy


def nearest_backend(name: str, known: Sequence[str]) -> str:
    """What a writer probably meant by a name that no backend has; "" when nothing is near."""
    synonym = _SYNONYMS.get(name, "")
    near = [synonym] if synonym in known else difflib.get_close_matches(name, known, 1)
    return near[0] if near else ""


def not_installed(name: str, known: Sequence[str], backend_directory: Path | None) -> BackendMissingError:
    """The error for a backend that is neither embedded nor installed: its name, what there is, what to install."""
    head = f"backend '{name}' is not installed (installed are {', '.join(known)})"
    advice = _ADVICE.get(_SYNONYMS.get(name, name))
    if advice is not None:
        return BackendMissingError(head, advice)
    near = nearest_backend(name, known)
    if near:
        return BackendMissingError(head, f"did you mean '{near}'?")
    where = (backend_directory or Path("<backend directory>")) / name / "model.py"
    return BackendMissingError(
        head,
        f"install a package that has an entry point '{name}' in the group charonia.backends, "
        f"or put a Python-based backend at '{where}'; Triton's backends in C++ (libtriton_{name}.so) can't be loaded",
    )
