"""What the constructors of the API take. Wrong types raise TypeError; None where a tensor belongs raises
TritonModelException, as in Triton: models and their tests catch them by type."""

from __future__ import annotations

from operator import index
from typing import Any, Iterable

from .errors import TritonModelException
from .tensor import Tensor


def text(argument: str, value: Any) -> str:
    """Also bytes, as elements of BYTES tensors are."""
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise TypeError(f"{argument} must be a str, got {type(value).__name__}")
    return str(value)


def whole(argument: str, value: Any) -> int:
    """Whole numbers, also numpy's."""
    try:
        return index(value)
    except TypeError:
        raise TypeError(f"{argument} must be an int, got {type(value).__name__}") from None


def natural(argument: str, value: Any) -> int:
    """Whole numbers that are not negative."""
    number = whole(argument, value)
    if number < 0:
        raise TypeError(f"{argument} must not be negative, got {number}")
    return number


def flag(argument: str, value: Any) -> bool:
    if not isinstance(value, (bool, int)):
        raise TypeError(f"{argument} must be a bool, got {type(value).__name__}")
    return bool(value)


def instance(argument: str, value: Any, kind: type) -> Any:
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{argument} must be {kind.__name__}, got {type(value).__name__}")
    return value


def correlation_id(value: Any) -> int | str:
    if value is None:
        raise TypeError("correlation_id must be an int or a str, got None")
    if isinstance(value, str):
        return str(value)
    if not isinstance(value, int):
        raise TritonModelException(f"a correlation id must be an int or a str, got {type(value).__name__}")
    return int(value)


def names(argument: str, values: Any) -> list[str]:
    """Each once: they are a set in Triton."""
    found = [text(f"each of {argument}", value) for value in _several(argument, values)]
    if "" in found:
        raise TritonModelException(f"{argument} has an empty name, at position {found.index('')}")
    return list(dict.fromkeys(found))


def tensors(argument: str, values: Any) -> list[Tensor]:
    found = list(_several(argument, values))
    for value in found:
        if isinstance(value, Tensor):
            continue
        if value is None:
            raise TritonModelException(f"{argument} must hold Tensor objects, got None")
        raise TypeError(f"{argument} must hold Tensor objects, got {type(value).__name__}")
    return found


def parameters(given: Any) -> dict[str, Any] | None:
    """A copy in plain Python types (numpy's numbers are subclasses of some of them), None for an empty dict."""
    if not isinstance(given, dict):
        raise TypeError(f"parameters must be a dict, got {type(given)}")  # as clients know it: <class ...>
    plain: dict[str, Any] = {}
    for key, value in given.items():
        if not isinstance(key, str):
            raise TritonModelException(f"parameter names must be str, got {type(key).__name__}")
        plain[str(key)] = _parameter(key, value)
    return plain or None


def _parameter(key: str, value: Any) -> Any:
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            return kind(value)
    raise TritonModelException(f"parameter '{key}' must be a bool, int, float or str, got {type(value).__name__}")


def _several(argument: str, values: Any) -> Iterable[Any]:
    if values is None or isinstance(values, (str, Tensor)) or not hasattr(values, "__iter__"):
        raise TypeError(f"{argument} must be a list, got {type(values).__name__}")
    return values  # type: ignore[no-any-return]
