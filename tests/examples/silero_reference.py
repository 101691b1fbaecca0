"""What Silero's own package says of a stream: its wrapper as it is, on numpy where torch is not installed."""

import importlib.util
import sys
from types import ModuleType
from unittest.mock import patch

import numpy as np

from examples.voice.layout import RATE_HZ, SAMPLES, silero_model


def probabilities(sound):
    """The probability of speech in each chunk of a sound, by a wrapper of its own."""
    wrapper = _WRAPPER(str(silero_model()), force_onnx_cpu=True)
    padded = np.zeros(max(1, -(-len(sound) // SAMPLES)) * SAMPLES, np.float32)
    padded[: len(sound)] = sound
    return [float(wrapper(_TORCH.from_numpy(chunk), RATE_HZ)[0, 0]) for chunk in padded.reshape(-1, SAMPLES)]


class Tensor(np.ndarray):
    """As much of torch.Tensor as the wrapper uses."""

    def dim(self):
        return self.ndim

    def unsqueeze(self, axis):
        return np.expand_dims(self, axis)

    def float(self):
        return self.astype(np.float32)

    def numpy(self):
        return np.asarray(self)


def _numpy_as_torch():
    module = ModuleType("torch")
    module.Tensor = Tensor
    module.from_numpy = lambda array: array.view(Tensor)
    module.zeros = lambda *shape: np.zeros(shape if len(shape) > 1 else shape[0], np.float32).view(Tensor)
    module.cat = lambda tensors, dim: np.concatenate(tensors, axis=dim).view(Tensor)
    module.no_grad = lambda: lambda function: function
    module.device = str
    return module


def _torch():
    return importlib.import_module("torch") if importlib.util.find_spec("torch") else _numpy_as_torch()


def _wrapper():
    spec = importlib.util.spec_from_file_location("silero_utils", silero_model().parents[1] / "utils_vad.py")
    module = importlib.util.module_from_spec(spec)
    with patch.dict(sys.modules, torch=_TORCH):
        spec.loader.exec_module(module)
    return module.OnnxWrapper


_TORCH = _torch()
_WRAPPER = _wrapper()
