"""Every error that Charonia raises on purpose: a code and one sentence.

    CharoniaError
    ├── InvalidArgumentError    the request or the configuration is wrong
    ├── NotFoundError           a model, version or path that does not exist
    ├── AlreadyExistsError
    ├── UnavailableError        right request, wrong moment: loading, stopping
    │   ├── QueueFullError      refused by a queue limit
    │   └── QueueTimeoutError   waited longer than its queue policy allows
    ├── UnsupportedError        legal, but not something this server or model does
    ├── CancelledError          the client went away or cancelled
    ├── InternalError           our fault, or the backend's
    │   └── BackendError        the model's code failed
    └── UnknownError            a model reported a failure without a better code

Codes are gRPC's canonical numbers. The one mapping from code to HTTP status is `rust/wire/src/status.rs`
(`charonia._wire.http_status`).
"""

from enum import IntEnum
from typing import ClassVar


class Code(IntEnum):
    """gRPC canonical status codes, the ones Charonia uses."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class FailureReason:
    """The values of the `reason` label of `nv_inference_request_failure`."""

    REJECTED = "REJECTED"
    CANCELED = "CANCELED"
    BACKEND = "BACKEND"
    OTHER = "OTHER"
    ALL = (REJECTED, CANCELED, BACKEND, OTHER)


class CharoniaError(Exception):
    """Base of the tree. `str(error)` is the sentence that the client sees."""

    code: ClassVar[Code] = Code.INTERNAL
    failure_reason: ClassVar[str] = FailureReason.OTHER


class InvalidArgumentError(CharoniaError):
    code = Code.INVALID_ARGUMENT


class NotFoundError(CharoniaError):
    code = Code.NOT_FOUND


class AlreadyExistsError(CharoniaError):
    code = Code.ALREADY_EXISTS


class UnavailableError(CharoniaError):
    code = Code.UNAVAILABLE


class QueueFullError(UnavailableError):
    failure_reason = FailureReason.REJECTED


class QueueTimeoutError(UnavailableError):
    failure_reason = FailureReason.REJECTED


class UnsupportedError(CharoniaError):
    code = Code.UNIMPLEMENTED


class CancelledError(CharoniaError):
    code = Code.CANCELLED
    failure_reason = FailureReason.CANCELED


class InternalError(CharoniaError):
    code = Code.INTERNAL


class BackendError(InternalError):
    failure_reason = FailureReason.BACKEND


class UnknownError(CharoniaError):
    code = Code.UNKNOWN
    failure_reason = FailureReason.BACKEND
