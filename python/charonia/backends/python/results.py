"""What both forms of Python models share when they answer: Triton's error codes as Charonia's errors."""

from charonia.core.errors import (
    AlreadyExistsError,
    BackendError,
    CancelledError,
    CharoniaError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
    UnknownError,
    UnsupportedError,
)

# By the codes of `TritonError`, in their order: UNKNOWN is 0.
_ERRORS: tuple[type[CharoniaError], ...] = (
    UnknownError,
    BackendError,
    NotFoundError,
    InvalidArgumentError,
    UnavailableError,
    UnsupportedError,
    AlreadyExistsError,
    CancelledError,
)


def reported_error(code: int, message: str) -> CharoniaError:
    """The error for a `TritonError` of a model."""
    return _ERRORS[code](message)


def error_code(error: CharoniaError) -> int:
    """The code of a `TritonError` that stands for `error`."""
    return next((code for code, kind in enumerate(_ERRORS) if isinstance(error, kind)), _INTERNAL)


_INTERNAL = 1
