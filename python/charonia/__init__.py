"""Charonia: a model inference server that speaks Triton's protocols.

    with charonia.Server(model_repository="models") as server:
        outputs = server.model("m").infer(INPUT=array)

What goes wrong is a CharoniaError; `charonia.core.errors` says what each kind means.

Importing this package is cheap: the rest is imported with the first name that is used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

__all__ = [
    "AlreadyExistsError",
    "Answer",
    "BackendError",
    "CancelledError",
    "CharoniaError",
    "InternalError",
    "InvalidArgumentError",
    "Model",
    "NotFoundError",
    "QueueFullError",
    "QueueTimeoutError",
    "Sequence",
    "Server",
    "UnavailableError",
    "UnknownError",
    "UnsupportedError",
    "__version__",
]

if TYPE_CHECKING:
    from charonia.api import Server
    from charonia.api_model import Answer, Model
    from charonia.api_sequence import Sequence
    from charonia.core.errors import (
        AlreadyExistsError,
        BackendError,
        CancelledError,
        CharoniaError,
        InternalError,
        InvalidArgumentError,
        NotFoundError,
        QueueFullError,
        QueueTimeoutError,
        UnavailableError,
        UnknownError,
        UnsupportedError,
    )

_HOMES = {
    "Answer": "charonia.api_model",
    "Model": "charonia.api_model",
    "Sequence": "charonia.api_sequence",
    "Server": "charonia.api",
}


def __getattr__(name: str) -> object:
    if name in __all__:
        return getattr(import_module(_HOMES.get(name, "charonia.core.errors")), name)
    raise AttributeError(f"module 'charonia' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
