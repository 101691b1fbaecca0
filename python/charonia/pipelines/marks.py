"""The sequence that a tensor belongs to, as a step's response says it and as the ensemble's response tells it."""

from collections.abc import Mapping

from charonia.core.errors import InvalidArgumentError
from charonia.core.request import SEQUENCE_END, SEQUENCE_START, Parameter

Mark = tuple[int | str, int]
"""The correlation id and the flags that go with a tensor."""

_MARKS = frozenset(("sequence_id", "sequence_start", "sequence_end"))
_OF_NO_SEQUENCE: Mapping[str, Parameter] = {"sequence_id": 0, "sequence_start": False, "sequence_end": False}
_UINT64, _INT64_MAX = 2**64, 2**63 - 1


def mark_in(parameters: Mapping[str, Parameter], correlation_id: int | str) -> Mark | None:
    """What a response's parameters say of its sequence; None if nothing.

    Raises:
        InvalidArgumentError: one of them has the wrong type.
    """
    if not _MARKS & parameters.keys():
        return None
    given = parameters.get("sequence_id", correlation_id)
    if isinstance(given, bool) or not isinstance(given, int | str):
        raise InvalidArgumentError(
            f"the response's parameter 'sequence_id' must be an integer or a string, got {given!r}"
        )
    flags = 0
    for name, flag in (("sequence_start", SEQUENCE_START), ("sequence_end", SEQUENCE_END)):
        value = parameters.get(name, False)
        if not isinstance(value, bool):
            raise InvalidArgumentError(f"the response's parameter '{name}' must be a boolean, got {value!r}")
        flags |= flag * value
    return given, flags


def parameters_of(mark: Mark) -> Mapping[str, Parameter]:
    """The parameters by which an ensemble's response tells the sequence that it belongs to, as Triton's do."""
    correlation_id, flags = mark
    if not correlation_id and not flags:
        return _OF_NO_SEQUENCE
    if isinstance(correlation_id, int) and correlation_id > _INT64_MAX:
        correlation_id -= _UINT64  # parameters are signed
    return {
        "sequence_id": correlation_id,
        "sequence_start": bool(flags & SEQUENCE_START),
        "sequence_end": bool(flags & SEQUENCE_END),
    }
