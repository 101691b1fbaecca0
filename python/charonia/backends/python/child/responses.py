"""`pb_utils.InferenceResponse`, and the flags that go with responses."""

from __future__ import annotations

import json
from typing import Any, Iterable

from . import arguments
from .errors import TritonError
from .tensor import Tensor

TRITONSERVER_RESPONSE_COMPLETE_FINAL = 1
TRITONSERVER_REQUEST_RELEASE_ALL = 1
TRITONSERVER_REQUEST_RELEASE_RESCHEDULE = 2


class InferenceResponse:
    """The answer to one request, or one of several: outputs, or an error, and parameters."""

    __slots__ = ("_error", "_outputs", "_parameters")

    def __init__(
        self,
        output_tensors: Iterable[Tensor] = (),
        error: TritonError | None = None,
        parameters: dict[str, Any] | None = None,
    ) -> None:
        outputs = arguments.tensors("output_tensors", output_tensors)
        if error is not None and not isinstance(error, TritonError):
            raise TypeError(f"error must be a TritonError, got {type(error).__name__}")
        self._outputs = outputs
        self._error = error
        self._parameters = None if parameters is None else arguments.parameters(parameters)

    def output_tensors(self) -> list[Tensor]:
        return self._outputs

    def has_error(self) -> bool:
        return self._error is not None

    def error(self) -> TritonError | None:
        return self._error

    def parameters(self) -> str:
        """As JSON."""
        return to_json(self._parameters)


def to_json(parameters: Any) -> str:
    return json.dumps(parameters, ensure_ascii=False, separators=(",", ":")) if parameters else "{}"
