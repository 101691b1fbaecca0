"""Protobuf text format as tokens: names, numbers, strings and symbols, with line and column."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from charonia.core.text import shown

MOST_TOKENS = 200_000
"""The largest ones that are known have some thousand; these take two seconds to read."""
_LONGEST_WORD = 1000
"""Names and numbers that mean something are far shorter."""
_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\f\v]+)
  | (?P<comment>\#[^\n]*)
  | (?P<newline>\n)
  | (?P<name>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<number>(?:\d|\.\d)(?:[eE][+-](?=\d)|[\w.])*)
  | (?P<string>"(?:[^"\\\n]|\\[^\n])*"|'(?:[^'\\\n]|\\[^\n])*')
  | (?P<symbol>[{}<>\[\]:,;=+-])
    """,
    re.VERBOSE,
)
_ESCAPE = re.compile(
    r"\\(?:(?P<octal>[0-7]{1,3})|[xX](?P<hex>[0-9A-Fa-f]{1,2})|u(?P<u>[0-9A-Fa-f]{4})|U(?P<U>[0-9A-Fa-f]{8})|(?P<one>.?))",
    re.DOTALL,
)
_SIMPLE_ESCAPES = {
    "n": b"\n", "t": b"\t", "r": b"\r", "a": b"\a", "b": b"\b", "f": b"\f", "v": b"\v",
    "\\": b"\\", '"': b'"', "'": b"'", "?": b"?",
}  # fmt: skip
_TYPOGRAPHIC_QUOTES = "“”„‟‘’‚‛«»"
_ODD_SPACES = "\u00a0\u2007\u202f\u3000\u200b\u2060\ufeff"
"""What word processors and web pages put in the place of a space."""


class Kind(Enum):
    NAME = "name"
    NUMBER = "number"
    STRING = "string"
    SYMBOL = "symbol"
    END = "end"


@dataclass(slots=True)
class Token:
    """`text` as written, a long string's only in part; `data` the bytes of a string with its escapes resolved."""

    kind: Kind
    text: str
    line: int
    column: int
    data: bytes = b""


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong at a line and column, both from 1."""

    line: int
    column: int
    message: str
    remedy: str = ""


class SyntaxStop(Exception):
    """A problem after which the rest can't be read."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.message)
        self.problem = problem


def tokenize(text: str) -> Iterator[Token]:
    """The tokens of `text`, an END last.

    Raises:
        SyntaxStop: at a character or string that is not part of the format.
    """
    line, line_start, at, found = 1, 0, 0, 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        column = at - line_start + 1
        if match is None:
            raise SyntaxStop(_unreadable(text, at, line, column))
        at = match.end()
        kind = match.lastgroup
        if kind == "newline":
            line, line_start = line + 1, at
        elif kind == "string":
            written = match.group()
            yield Token(Kind.STRING, shown(written), line, column, _unescape(written[1:-1], line, column))
        elif kind not in ("space", "comment"):
            found += 1
            if at - match.start() > _LONGEST_WORD:
                raise SyntaxStop(Problem(line, column, f"no {kind} has {at - match.start()} characters"))
            if found > MOST_TOKENS:
                raise SyntaxStop(Problem(line, column, f"no configuration has more than {MOST_TOKENS} words and signs"))
            yield Token(Kind(kind), match.group(), line, column)
    yield Token(Kind.END, "", line, at - line_start + 1)


def _unreadable(text: str, at: int, line: int, column: int) -> Problem:
    character = text[at]
    if character in "\"'":
        return Problem(line, column, f"the string that starts here has no closing {character} on its line")
    if character in _TYPOGRAPHIC_QUOTES:
        return Problem(line, column, f"'{character}' is a typographic quote", 'use the plain quote "')
    if text.startswith(("//", "/*"), at):
        return Problem(line, column, f"'{text[at : at + 2]}' does not start a comment", "start comments with '#'")
    if character in _ODD_SPACES:
        return Problem(line, column, f"the character U+{ord(character):04X} looks like a space", "use a plain space")
    if "\udc80" <= character <= "\udcff":  # how `_decode` keeps a byte that is not UTF-8
        message = f"byte 0x{ord(character) - 0xDC00:02x} is not UTF-8 text"
        return Problem(line, column, message, "save the file as UTF-8 text")
    if character in "()":
        return Problem(line, column, f"the character '{character}' does not belong here", "lists are written [ 4 ]")
    shown = character if character.isprintable() else f"U+{ord(character):04X}"
    return Problem(line, column, f"the character '{shown}' does not belong here")


def _unescape(body: str, line: int, column: int) -> bytes:
    parts: list[bytes] = []
    at = 0
    for match in _ESCAPE.finditer(body):
        parts.append(body[at : match.start()].encode("utf-8", "surrogateescape"))
        parts.append(_escaped(match, line, column + 1 + match.start()))
        at = match.end()
    parts.append(body[at:].encode("utf-8", "surrogateescape"))
    return b"".join(parts)


def _escaped(match: re.Match[str], line: int, column: int) -> bytes:
    if match["octal"] is not None:
        return bytes((int(match["octal"], 8) & 0xFF,))
    if match["hex"] is not None:
        return bytes((int(match["hex"], 16),))
    code_point = match["u"] or match["U"]
    if code_point is not None:
        if int(code_point, 16) > 0x10FFFF:
            raise SyntaxStop(Problem(line, column, f"'{match.group()}' is no Unicode character"))
        return chr(int(code_point, 16)).encode("utf-8", "surrogatepass")
    simple = _SIMPLE_ESCAPES.get(match["one"])
    if simple is None:
        raise SyntaxStop(
            Problem(line, column, f"'{match.group()}' is no escape of the text format", r"write '\\' for a backslash")
        )
    return simple
