"""Lays out the repository of the language model."""

import json
import shutil
from pathlib import Path

import onnx

from examples.language import network, vocabulary

SOURCE = Path(__file__).parent / "models"
# The Python models: beside each lies text.py, with its table.
_PYTHON = ("tokenize", "next_tokens", "detokenize", "generate", "iterative")


def lay_out(target: Path) -> Path:
    """Make (or make anew) the repository `target`."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(SOURCE, target, ignore=shutil.ignore_patterns("__pycache__"))
    for name in _PYTHON:
        table = [piece.hex() for piece in vocabulary.table()]
        (target / name / "1" / "table.json").write_text(json.dumps(table))
        shutil.copyfile(Path(__file__).parent / "text.py", target / name / "1" / "text.py")
    (target / "language" / "1").mkdir()
    (target / "tiny_lm" / "1").mkdir(parents=True)
    onnx.save(network.build(), target / "tiny_lm" / "1" / "model.onnx")
    return target
