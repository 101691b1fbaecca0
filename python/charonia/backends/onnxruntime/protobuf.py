"""Reads protobuf messages field by field, without copying or looking into what is not asked for."""

from collections.abc import Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_LAST_BIT = 63

Field = tuple[int, int | memoryview]
"""A field's number and its value: a number, or the bytes of text, of a message or of a packed list."""


class Malformed(Exception):
    """This is no protobuf message. `needs` is how many bytes it says that it has, 0 when it says nothing sensible."""

    def __init__(self, needs: int = 0) -> None:
        super().__init__()
        self.needs = needs


def fields(message: memoryview) -> Iterator[Field]:
    """The fields of a message in the order in which they were written.

    Raises:
        Malformed: while iterating.
    """
    at, end = 0, len(message)
    while at < end:
        tag, at = _varint(message, at)
        number, kind = tag >> 3, tag & 7
        if kind == VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        size, at = _varint(message, at) if kind == BYTES else (_FIXED.get(kind, -1), at)
        if size < 0 or number == 0:
            raise Malformed
        if at + size > end:
            raise Malformed(at + size)
        yield number, message[at : at + size]
        at += size


_FIXED = {FIXED64: 8, FIXED32: 4}


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while at < len(message):
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift > _LAST_BIT:
            raise Malformed
    raise Malformed(at + 1)


def signed(value: int) -> int:
    """An int64 from the number that stands for it."""
    return value - (1 << 64) if value >> _LAST_BIT else value


def encoded(number: int, value: int | bytes) -> bytes:
    """One field as it is written."""
    if isinstance(value, int):
        return _encoded_varint(number << 3 | VARINT) + _encoded_varint(value)
    return _encoded_varint(number << 3 | BYTES) + _encoded_varint(len(value)) + value


def _encoded_varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
