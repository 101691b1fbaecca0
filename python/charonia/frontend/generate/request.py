"""The body of a generate request: members that are inputs become tensors, the others parameters."""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from charonia.config.io import InputSpec
from charonia.core.errors import CharoniaError, InvalidArgumentError
from charonia.core.request import Parameter
from charonia.core.tensor import Tensor
from charonia.core.text import shown
from charonia.frontend.control.body import kind_of
from charonia.frontend.generate.values import Members, Token, check_text, described, tensor_of

MAX_VALUES = 1_000_000
"""Values in a body. Reading so many takes a thread about 0.1 s; what has more is better sent by infer."""

_NESTED = "parameters"
_MIN_INT, _MAX_INT = -(1 << 63), (1 << 64) - 1
_STRINGS = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SEPARATORS = (b",", b"[", b"{")


@dataclass(frozen=True, slots=True)
class Target:
    """Of the model that is asked, what reading needs. `batched`: inputs have a batch dimension."""

    name: str
    inputs: Sequence[InputSpec]
    batched: bool


@dataclass(frozen=True, slots=True)
class Limits:
    """`input_bytes` of all tensors together; how many `parameters`."""

    input_bytes: int
    parameters: int


@dataclass(slots=True)
class GenerateBody:
    """What a body says; `parameters` with those that the server itself understands among them."""

    id: str = ""
    inputs: dict[str, Tensor] = field(default_factory=dict)
    parameters: dict[str, Parameter] = field(default_factory=dict)


def read_body(body: bytes, target: Target, limits: Limits) -> GenerateBody:
    """What `body` asks of the model; an empty body is an empty object.

    Raises:
        InvalidArgumentError: no JSON object; a member twice; a value that is of a wrong type for its input or for a
            parameter; or too much of something.
    """
    reader = _Reader(target, limits)
    reader.read(_parsed(body))
    return reader.result


class _Reader:
    def __init__(self, target: Target, limits: Limits) -> None:
        self.result = GenerateBody()
        self._target = target
        self._limits = limits
        self._specs = {spec.name: spec for spec in target.inputs}
        self._bytes = 0

    def read(self, members: Members) -> None:
        """In the order of the members, so that it is the first fault that is told."""
        id_given = False
        for name, value in members:
            if name == "id" and name not in self._specs:
                if id_given:
                    raise self._twice("member", name)
                self.result.id, id_given = _request_id(value), True
            elif name == _NESTED and name not in self._specs:
                self._read_nested(value)
            else:
                self._add(name, value)

    def _read_nested(self, value: Any) -> None:
        if type(value) is not Members:
            got = kind_of(value)
            raise InvalidArgumentError(f"Expected JSON object for keyword: '{_NESTED}'; got {got}")
        try:
            for name, each in value:
                self._add(name, each)
        except CharoniaError as error:
            raise InvalidArgumentError(f"Converting keyword: '{_NESTED}': {error}") from None

    def _add(self, name: str, value: Any) -> None:
        spec = self._specs.get(name)
        if spec is None:
            self._add_parameter(name, value)
        elif name in self.result.inputs:
            raise self._twice("input", name)
        else:
            tensor = tensor_of(value, spec, self._target.name, self._target.batched)
            self._count(tensor)
            self.result.inputs[name] = tensor

    def _add_parameter(self, name: str, value: Any) -> None:
        parameters = self.result.parameters
        if name in parameters:
            raise self._twice("parameter", name)
        if len(parameters) >= self._limits.parameters:
            raise InvalidArgumentError(
                f"there are more than {self._limits.parameters} parameters. "
                "Use --request-max-parameters to increase the limit."
            )
        parameters[name] = _parameter(name, value)

    def _count(self, tensor: Tensor) -> None:
        """The body's limit holds for what it becomes, too: `1,` is 2 bytes and, as FP64, 8."""
        nbytes, limit = tensor.buffer.nbytes, self._limits.input_bytes
        if self._bytes + nbytes > limit:
            raise InvalidArgumentError(
                f"request size of {self._bytes} bytes with input '{shown(tensor.name)}' of size {nbytes} bytes exceeds "
                f"the maximum allowed input size of {limit}. Use --http-max-input-size to increase the limit."
            )
        self._bytes += nbytes

    def _twice(self, what: str, name: str) -> InvalidArgumentError:
        return InvalidArgumentError(f"{what} '{shown(name)}' already exists in request for model '{self._target.name}'")


def _parsed(body: bytes) -> Members:
    if not body:
        return Members()
    _check_count(body)
    try:
        value = json.loads(body.decode(), object_pairs_hook=Members, parse_constant=Token)
    except ValueError as error:
        raise InvalidArgumentError(f"failed to parse the request JSON buffer: {error}") from None
    except RecursionError:
        raise InvalidArgumentError("JSON nesting depth exceeds maximum allowed limit (100)") from None
    if type(value) is not Members:
        raise InvalidArgumentError(f"generate body must be a JSON object, got {kind_of(value)}")
    return value


def _check_count(body: bytes) -> None:
    """Before parsing: 64 MiB of `[],` would take more than a gigabyte as Python objects."""
    if _separators(body) > MAX_VALUES and _separators(_STRINGS.sub(b"", body)) > MAX_VALUES:
        raise InvalidArgumentError(
            f"generate body has more than {MAX_VALUES} values: send large tensors by infer, in binary"
        )


def _separators(body: bytes) -> int:
    return sum(body.count(each) for each in _SEPARATORS)


def _request_id(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidArgumentError(
            f"Unable to parse 'id': attempt to access JSON non-string as string; got {described(value)}"
        )
    check_text(value, "'id'")
    return value


def _parameter(name: str, value: Any) -> Parameter:
    where = f"parameter '{shown(name)}'"
    check_text(name, "the name of a parameter")
    if isinstance(value, int) and not isinstance(value, bool) and not _MIN_INT <= value <= _MAX_INT:
        raise InvalidArgumentError(f"{where} is out of range: {shown(str(value))} does not fit 64 bits")
    if isinstance(value, str):
        check_text(value, where)
    if isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return float(value)
    raise InvalidArgumentError(
        f"{where} has invalid type. It should be either 'int', 'bool', or 'string', or a 'double'; "
        f"got {described(value)}, and the model has no input of that name"
    )
