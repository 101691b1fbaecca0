"""Charonia: a model inference server that speaks Triton's protocols.

    with charonia.Server(model_repository="models") as server:
        outputs = server.model("m").infer(INPUT=array)

Importing this package is cheap: the rest is imported with the first name that is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = ["Answer", "Model", "Sequence", "Server", "__version__"]

if TYPE_CHECKING:
    from charonia.api import Server
    from charonia.api_model import Answer, Model
    from charonia.api_sequence import Sequence

_HOMES = {
    "Answer": "charonia.api_model",
    "Model": "charonia.api_model",
    "Sequence": "charonia.api_sequence",
    "Server": "charonia.api",
}


def __getattr__(name: str) -> object:
    module = _HOMES.get(name)
    if module is not None:
        return getattr(import_module(module), name)
    raise AttributeError(f"module 'charonia' has no attribute {name!r}")
