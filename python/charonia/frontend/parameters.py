"""The request parameters that the server itself understands, taken out of the others."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from charonia.core.correlation import check_text, unsigned
from charonia.core.errors import InvalidArgumentError
from charonia.core.request import NO_PARAMETERS, SEQUENCE_END, SEQUENCE_START, Parameter
from charonia.core.text import shown

# Asks the stream of a decoupled model for a last answer without outputs. A client may use no other reserved name.
_EMPTY_FINAL = "triton_enable_empty_final_response"
_OWN = ("priority", "timeout", "sequence_id", "sequence_start", "sequence_end", _EMPTY_FINAL)
_RESERVED_PREFIX = "triton_"
_MAX_UINT64 = (1 << 64) - 1


@dataclass(slots=True)
class RequestOptions:
    """`timeout_us` in microseconds; `correlation_id` 0 for none; `flags` are SEQUENCE_START and SEQUENCE_END."""

    priority: int = 0
    timeout_us: int = 0
    correlation_id: int | str = 0
    flags: int = 0
    others: Mapping[str, Parameter] = field(default_factory=lambda: NO_PARAMETERS)


NO_OPTIONS = RequestOptions()


def split_parameters(parameters: Mapping[str, Parameter]) -> RequestOptions:
    """Sort parameters into the server's own and the model's.

    Raises:
        InvalidArgumentError: one of the server's own has the wrong type or range, or a name is reserved.
        UnsupportedError: a textual correlation id is too long.
    """
    others = {key: value for key, value in parameters.items() if key not in _OWN}
    _refuse_reserved(others)
    _flag(parameters, _EMPTY_FINAL, 0)
    return RequestOptions(
        priority=_number(parameters, "priority"),
        timeout_us=_number(parameters, "timeout"),
        correlation_id=_correlation_id(parameters.get("sequence_id", 0)),
        flags=_flag(parameters, "sequence_start", SEQUENCE_START) | _flag(parameters, "sequence_end", SEQUENCE_END),
        others=others or NO_PARAMETERS,
    )


def _number(parameters: Mapping[str, Parameter], key: str) -> int:
    value = parameters.get(key, 0)
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MAX_UINT64:
        return value
    raise _wrong_type(key, value, "expected int64_param: a whole number that is not negative")


def _flag(parameters: Mapping[str, Parameter], key: str, flag: int) -> int:
    value = parameters.get(key, False)
    if not isinstance(value, bool):
        raise _wrong_type(key, value, "expected bool_param: true or false")
    return flag if value else 0


def _refuse_reserved(others: Mapping[str, Parameter]) -> None:
    for key in others:
        if key.startswith(_RESERVED_PREFIX):
            raise InvalidArgumentError(
                f"parameter {shown(repr(key))}: keys starting with '{_RESERVED_PREFIX}' are reserved for Triton usage; "
                f"the only one to send is {_EMPTY_FINAL}"
            )


def _correlation_id(value: Parameter) -> int | str:
    if isinstance(value, bool | float):
        raise _wrong_type("sequence_id", value, "expected int64_param or string_param: a whole number or text")
    if isinstance(value, str):
        check_text(value)
        return value
    return unsigned(value)


def _wrong_type(key: str, value: object, expected: str) -> InvalidArgumentError:
    return InvalidArgumentError(f"invalid value type for '{key}' parameter, {expected}; got {shown(repr(value))}")
