"""Model versions as clients write them."""

from charonia.core.errors import InvalidArgumentError
from charonia.core.request import ANY_VERSION
from charonia.core.text import shown

_MAX_VERSION = 2**63 - 1
_MAX_DIGITS = 19


def parse_version(text: str, model: str) -> int:
    """The number, or ANY_VERSION for "". Leading zeros are allowed.

    Raises:
        InvalidArgumentError: not decimal digits, or beyond 64 bits.
    """
    if not text:
        return ANY_VERSION
    digits = text.lstrip("0") or "0"
    if is_digits(text) and len(digits) <= _MAX_DIGITS and int(digits) <= _MAX_VERSION:
        return int(digits)
    raise InvalidArgumentError(
        f"failed to get model version from specified version string '{shown(text)}' for model '{shown(model)}': "
        f"expected decimal digits up to {_MAX_VERSION}"
    )


def is_digits(text: str) -> bool:
    """Decimal ASCII digits only, at least one."""
    return text.isascii() and text.isdigit()
