"""Lays out a repository with Silero's voice activity detector: python -m examples.voice.layout DIRECTORY

The directory is made anew if it is such a repository; another one that is not empty is refused.
Needs two packages: pip install onnx; pip install --no-deps silero-vad (only the model in it is used, so no torch).
"""

import argparse
import shutil
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

MODELS = Path(__file__).parent / "models"
SAMPLES = 512
CONTEXT_SAMPLES = 64
RATE_HZ = 16000


def lay_out(target: Path) -> Path:
    """Make (or make anew) the repository `target`."""
    if target.exists() and {path.name for path in target.iterdir()} - {"voice_activity"}:
        raise SystemExit(f"{target} holds other things than this repository: name a new directory")
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(MODELS, target)
    version = target / "voice_activity" / "1"
    version.mkdir()
    onnx.save_model(streaming(onnx.load_model(silero_model())), version / "model.onnx")
    return target


def silero_model() -> Path:
    """The model file of the installed package, which is not imported: it would want torch."""
    spec = find_spec("silero_vad")
    if spec is None or spec.origin is None:
        raise SystemExit("the example's model comes with a package: pip install --no-deps silero-vad")
    return Path(spec.origin).parent / "data" / "silero_vad.onnx"


def streaming(model: onnx.ModelProto) -> onnx.ModelProto:
    """The package's model, with everything that it remembers of a stream as states that batch.

    As it comes, its recurrent state has the batch as its second dimension, and whoever calls it puts the last 64
    samples of the chunk before in front of each chunk (the package's wrapper does). Here the batch is always first, and
    these samples are a state too: clients send nothing but new sound.
    """
    graph, inner = model.graph, list(model.graph.node)
    for field in ("input", "output", "node"):
        graph.ClearField(field)
    states = {"memory": ["N", 2, 128], "context": ["N", CONTEXT_SAMPLES]}
    graph.input.append(_value("audio", ["N", SAMPLES]))
    graph.output.append(_value("speech", ["N", 1]))
    for name, shape in states.items():
        graph.input.append(_value(name, shape))
        graph.output.append(_value(f"{name}_next", shape))
    constants = {"first": [SAMPLES], "end": [SAMPLES + CONTEXT_SAMPLES], "axis": [1], "sr": RATE_HZ}
    graph.initializer.extend(numpy_helper.from_array(np.array(n, np.int64), name) for name, n in constants.items())
    graph.node.extend(
        [
            helper.make_node("Concat", ["context", "audio"], ["input"], axis=1),
            helper.make_node("Transpose", ["memory"], ["state"], perm=[1, 0, 2]),
            *inner,
            helper.make_node("Transpose", ["stateN"], ["memory_next"], perm=[1, 0, 2]),
            helper.make_node("Slice", ["input", "first", "end", "axis"], ["context_next"]),
            helper.make_node("Identity", ["output"], ["speech"]),
        ]
    )
    return model


def _value(name: str, shape: list[int | str]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m examples.voice.layout",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("directory", type=Path, metavar="DIRECTORY")
    print(lay_out(parser.parse_args().directory))
