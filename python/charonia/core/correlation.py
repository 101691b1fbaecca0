"""What every door makes of the correlation id of a sequence."""

from charonia.core.errors import UnsupportedError

_MAX_TEXT_BYTES = 128
_MAX_UINT64 = (1 << 64) - 1


def unsigned(number: int) -> int:
    """Clients send an unsigned id of 64 bits as the signed number of the same bits, too."""
    return number & _MAX_UINT64


def check_text(text: str, prefix: str = "") -> None:
    """
    Args:
        prefix: how the message begins.

    Raises:
        UnsupportedError: it is too long for an id.
    """
    size = len(text.encode())
    if size > _MAX_TEXT_BYTES:
        raise UnsupportedError(
            f"{prefix}string correlation ID cannot be longer than {_MAX_TEXT_BYTES} characters, got {size} bytes: "
            "send a shorter one, or a number"
        )
