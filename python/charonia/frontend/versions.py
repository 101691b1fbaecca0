"""The version of a model as clients write it."""

from charonia.core.errors import InvalidArgumentError

LATEST = -1
_MAX_VERSION = (1 << 63) - 1


def parse_version(text: str) -> int:
    """The version number, -1 when `text` is empty.

    Raises:
        InvalidArgumentError: no positive whole number that fits 63 bits.
    """
    if not text:
        return LATEST
    if text.isascii() and text.isdigit() and int(text) <= _MAX_VERSION:
        return int(text)
    raise InvalidArgumentError(
        f"failed to get model version from specified version string '{text}': "
        "the version should be an integral value > 0"
    )
