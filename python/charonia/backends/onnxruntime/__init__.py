"""Serves `.onnx` models by ONNX Runtime: the default backend.

backend.py    what the server calls: complete a configuration, load a model version
model.py      one loaded version: makes a session for each instance
instance.py   executes batches: the hot path
ragged.py     an instance that joins requests of unequal shapes
values.py     between tensors and what ONNX Runtime takes and gives
signature.py  inputs and outputs as the model declares them
options.py, providers.py, settings.py   from the configuration to a session's options and execution providers
files.py, load_errors.py, runtime.py    what can be missing or wrong, and what to do about it
"""

from charonia.backends.onnxruntime.backend import OnnxRuntimeBackend

__all__ = ["OnnxRuntimeBackend"]
