"""Charonia: a model inference server that speaks Triton's protocols.

    with charonia.Server(model_repository="models") as server:
        outputs = server.model("m").infer(INPUT=array)

Importing this package is cheap: the rest is imported with the first name that is used.
"""

from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = ["Model", "Server", "__version__"]

if TYPE_CHECKING:
    from charonia.api import Model, Server


def __getattr__(name: str) -> object:
    if name in ("Model", "Server"):
        from charonia import api

        return getattr(api, name)
    raise AttributeError(f"module 'charonia' has no attribute {name!r}")
