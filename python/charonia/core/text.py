"""Text of others: in messages, and in settings."""

import unicodedata

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


def whole_number(text: str) -> int | None:
    """The number that a setting says; None for what is none, also for 8_000, which Python alone takes for one."""
    try:
        return int(text.replace("_", "?"))
    except ValueError:
        return None


def named_setting(text: str) -> tuple[str, str, str] | None:
    """(name, setting, value) of `<name>,<setting>=<value>`; the name is "" in `<setting>=<value>`. Else None.

    The name ends at the first comma; a comma after the first `=` belongs to the value.
    """
    head, _, value = text.partition("=")
    name, comma, key = head.partition(",") if "," in head else ("", "", head)
    return (name, key, value) if key and value and (name or not comma) else None


def in_one_line(text: str) -> str:
    """An error of others, which may have lines of a traceback, as a part of a sentence."""
    return " ".join(text.split())


def different_encoding(one: str, other: str, in_one: str, in_other: str) -> str:
    """What keeps two texts apart that look equal, as a clause; "" for texts that don't look equal.

    Args:
        in_one, in_other: where each of them stands, as "in the name".
    """
    if one == other or unicodedata.normalize("NFC", one) != unicodedata.normalize("NFC", other):
        return ""
    at = next(index for index, (a, b) in enumerate(zip(one, other, strict=False)) if a != b)
    first, second = _code_points(one, at), _code_points(other, at)
    return f": the letters are the same and encoded differently, {first} {in_one} and {second} {in_other}"


def _code_points(text: str, at: int) -> str:
    """The character at `at` with all that is combined with it, as `U+0065 U+0300`."""
    end = at + 1
    while end < len(text) and unicodedata.combining(text[end]):
        end += 1
    return " ".join(f"U+{ord(each):04X}" for each in text[at:end])


def printable(text: str) -> str:
    """`text` in one line, without anything that a terminal would act on: other characters as `\\x1b`."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)
