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
