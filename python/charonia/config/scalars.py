"""Plain values of the text format as Python values, checked against their field."""

import math
from typing import Any, NoReturn

from google.protobuf.descriptor import FieldDescriptor

from charonia.config.descriptors import enum_of, message_of, owner_of
from charonia.config.pbtxt_syntax import Scalar
from charonia.config.pbtxt_tokens import Kind
from charonia.config.spelling import unknown_enum_value

_INT_RANGES = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_MOST_DIGITS = 100
_BEYOND = 2**64
"""Out of every range."""
_VARIES = "write -1 for a size that varies"
_FLOATS = (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE)
_BOOLS = {"true": True, "True": True, "t": True, "1": True, "false": False, "False": False, "f": False, "0": False}


class Misfit(Exception):
    """A value that its field does not take."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


def convert(field: FieldDescriptor, scalar: Scalar) -> Any:
    """The Python value for `field`.

    Raises:
        Misfit: wrong kind of value, out of range, not one of the enum's.
    """
    cpp_type = field.cpp_type
    if cpp_type in _INT_RANGES:
        return _integer(field, scalar, *_INT_RANGES[cpp_type])
    if cpp_type in _FLOATS:
        return _float(field, scalar)
    if cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return _bool(field, scalar)
    if cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return _string(field, scalar)
    if cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return _enum(field, scalar)
    message = f"'{field.name}' of {owner_of(field)} takes a block, got {scalar.shown}"
    names = ", ".join(inner.name for inner in message_of(field).fields)
    raise Misfit(message, f"write {field.name} {{ … }}, whose fields are {names}")


def _wrong(field: FieldDescriptor, wanted: str, scalar: Scalar, remedy: str = "") -> NoReturn:
    raise Misfit(f"'{field.name}' takes {wanted}, got {scalar.shown}", remedy)


def _integer(field: FieldDescriptor, scalar: Scalar, low: int, high: int) -> int:
    if scalar.kind is Kind.STRING:
        _wrong(field, "a whole number", scalar, "remove the quotes" if _whole(scalar.data.decode("latin-1")) else "")
    number = _whole(scalar.text)
    if number is None:
        _wrong(field, "a whole number", scalar, _VARIES if field.name == "dims" and scalar.text.isidentifier() else "")
    if not low <= number <= high:
        _wrong(field, f"a whole number from {low} to {high}", scalar)
    return number


def _whole(text: str) -> int | None:
    """A decimal, 0x hexadecimal or 0-octal number, None when it is none."""
    digits = text.removeprefix("-")
    if len(digits) > _MOST_DIGITS and digits[:_MOST_DIGITS].isdecimal():
        return -_BEYOND if text.startswith("-") else _BEYOND  # Python does not read thousands of digits
    base = 16 if digits[:2].lower() == "0x" else 8 if digits[:1] == "0" and len(digits) > 1 else 10
    try:
        # `int` would also take underscores, which the text format does not.
        return None if "_" in text else int(text, base)
    except ValueError:
        return None


def _float(field: FieldDescriptor, scalar: Scalar) -> float:
    text = scalar.text
    if scalar.kind is Kind.NUMBER and "_" not in text:
        try:
            if text.removeprefix("-").lower().startswith("0x"):
                return float(int(text, 16))
            return float(text.removesuffix("f").removesuffix("F"))
        except (ValueError, OverflowError):
            _wrong(field, "a number", scalar)
    if scalar.kind is Kind.NAME:
        word, sign = text.removeprefix("-").lower(), -1.0 if text.startswith("-") else 1.0
        if word in ("inf", "infinity", "inff", "infinityf"):
            return sign * math.inf
        if word in ("nan", "nanf"):
            return math.copysign(math.nan, sign)
    _wrong(field, "a number", scalar)


def _bool(field: FieldDescriptor, scalar: Scalar) -> bool:
    value = None if scalar.kind is Kind.STRING else _BOOLS.get(scalar.text)
    if value is None:
        _wrong(field, "true or false", scalar)
    return value


def _string(field: FieldDescriptor, scalar: Scalar) -> str:
    if scalar.kind is not Kind.STRING:
        _wrong(field, "text in quotes", scalar, f'write "{scalar.shown}"')
    try:
        return scalar.data.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = scalar.data[error.start]
        raise Misfit(f"byte 0x{byte:02x} of '{field.name}' is not UTF-8 text", "write it in UTF-8") from None


def _enum(field: FieldDescriptor, scalar: Scalar) -> int:
    values = enum_of(field)
    if scalar.kind is Kind.NUMBER:
        number = _whole(scalar.text)
        if number is None or number not in values.values_by_number:
            raise Misfit(*unknown_enum_value(field, scalar.text))
        return number
    word = scalar.text if scalar.kind is Kind.NAME else scalar.data.decode("utf-8", "replace")
    value = values.values_by_name.get(word)
    if value is None:
        raise Misfit(*unknown_enum_value(field, word))
    if scalar.kind is Kind.STRING:
        _wrong(field, "a name without quotes", scalar, f"write {word}")
    return int(value.number)
