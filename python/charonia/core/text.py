"""Text of others in messages."""

# An id or a name is recognised by its beginning; a longer one would push the reason out of gRPC's status line.
_SHOWN_CHARACTERS = 200
_CLIPPED_CHARACTERS = 1200


def shown(text: str) -> str:
    """`text` as a message shows it: cut when it is very long."""
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"


def clipped(text: str) -> str:
    """A sentence, with its middle left out when it is very long."""
    if len(text) <= _CLIPPED_CHARACTERS:
        return text
    half = _CLIPPED_CHARACTERS // 2
    return f"{text[:half]} … {text[-half:]}"


def printable(text: str) -> str:
    """`text` in one line, without anything that a terminal would act on: other characters as `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)
