"""`pb_utils.TritonError` and the exception of the API."""

from __future__ import annotations


class TritonModelException(Exception):
    """Raised by the API for wrong use, and by models."""


class TritonError:
    """An error for one response: a message and one of Triton's codes."""

    UNKNOWN = 0
    INTERNAL = 1
    NOT_FOUND = 2
    INVALID_ARG = 3
    UNAVAILABLE = 4
    UNSUPPORTED = 5
    ALREADY_EXISTS = 6
    CANCELLED = 7

    __slots__ = ("_code", "_message")

    def __init__(self, message: str, code: int = INTERNAL) -> None:
        if not isinstance(message, str):
            raise TypeError(f"the message of a TritonError must be a str, got {type(message).__name__}")
        if not isinstance(code, int) or not self.UNKNOWN <= code <= self.CANCELLED:
            raise ValueError(f"the code of a TritonError must be one of its constants (0 to 7), got {code!r}")
        self._message = message
        self._code = code

    def message(self) -> str:
        return self._message

    def code(self) -> int:
        return self._code

    def __str__(self) -> str:
        return self._message

    def __repr__(self) -> str:
        return f"TritonError({self._message!r}, code={self._code})"


class ModelFailure(Exception):
    """The model's code failed; the text is for the client or the log. Not part of the API."""
