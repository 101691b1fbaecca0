"""Client text in messages."""

# An id or a name is recognised by its beginning; a longer one would push the reason out of gRPC's status line.
_SHOWN_CHARACTERS = 200


def shown(text: str) -> str:
    """`text` as a message shows it: cut when it is very long."""
    return text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}…"
