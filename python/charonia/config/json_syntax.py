"""JSON as nodes with their places: what `json.loads` gives, and where each value and each key stands."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from json import JSONDecodeError
from json.decoder import scanstring  # type: ignore[attr-defined]

from charonia.config.pbtxt_tokens import MOST_TOKENS, Problem, SyntaxStop
from charonia.core.text import shown

_MAX_DEPTH = 100
_SPACE = re.compile(r"[ \t\r\n]*")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?", re.ASCII)
_WORD = re.compile(r"[^\s,:\[\]{}\"]*")
_WORDS = {"true": True, "false": False, "null": None}
_PYTHON_WORDS = {"True": "true", "False": "false", "None": "null"}


class JsonKind(Enum):
    WORD = "word"
    NUMBER = "number"
    STRING = "string"
    ARRAY = "array"
    OBJECT = "object"


@dataclass(slots=True)
class JsonNode:
    """One value. `text` is how a word or number is written, and what a string says."""

    kind: JsonKind
    line: int
    column: int
    text: str = ""
    items: "list[JsonNode]" = field(default_factory=list)
    members: "list[JsonMember]" = field(default_factory=list)

    @property
    def is_null(self) -> bool:
        return self.kind is JsonKind.WORD and self.text == "null"


@dataclass(slots=True)
class JsonMember:
    """A key of an object, where it stands, and its value."""

    name: str
    line: int
    column: int
    value: JsonNode


def parse_json(text: str) -> JsonNode:
    """The document in `text`.

    Raises:
        SyntaxStop: at the first place where this is no JSON.
    """
    return _Reader(text).document()


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._line, self._line_start, self._counted = 1, 0, 0
        self._depth = 0
        self._found = 0

    def document(self) -> JsonNode:
        self._skip()
        node = self._value()
        self._skip()
        if self._at < len(self._text):
            raise self._stop("there is more text after the end of the JSON", "remove it")
        return node

    def _value(self) -> JsonNode:
        self._found += 1
        if self._found > MOST_TOKENS // 2:  # each comes with a comma, as a token of the text format does
            raise self._stop(f"no configuration has more than {MOST_TOKENS // 2} values")
        character = self._text[self._at : self._at + 1]
        if character in ("{", "["):
            return self._nested(character)
        line, column = self._place()
        if character == '"':
            return JsonNode(JsonKind.STRING, line, column, self._string())
        match = _NUMBER.match(self._text, self._at)
        if match is not None:
            self._at = match.end()
            return JsonNode(JsonKind.NUMBER, line, column, match.group())
        return self._word(line, column)

    def _nested(self, opener: str) -> JsonNode:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._stop(f"more than {_MAX_DEPTH} objects and lists stand inside one another")
        node = self._object() if opener == "{" else self._array()
        self._depth -= 1
        return node

    def _object(self) -> JsonNode:
        node = JsonNode(JsonKind.OBJECT, *self._place())
        seen: dict[str, JsonMember] = {}
        for _ in self._elements("}", node):
            member = self._member()
            earlier = seen.setdefault(member.name, member)
            if earlier is not member:
                text = f"the key '{shown(member.name)}' stands twice in one object, first on line {earlier.line}"
                raise SyntaxStop(Problem(member.line, member.column, text, "keep one of them"))
            node.members.append(member)
        return node

    def _member(self) -> JsonMember:
        line, column = self._place()
        name = self._string() if self._text.startswith('"', self._at) else self._bare_key()
        self._skip()
        if not self._text.startswith(":", self._at):
            raise self._stop(f"':' was expected after the key '{shown(name)}'")
        self._at += 1
        self._skip()
        return JsonMember(name, line, column, self._value())

    def _bare_key(self) -> str:
        """A key without quotes, which is no JSON, but Triton reads it."""
        word = self._peek_word()
        if not (word.isascii() and word.isidentifier()):
            raise self._stop("a key in double quotes was expected here")
        self._at += len(word)
        return word

    def _array(self) -> JsonNode:
        node = JsonNode(JsonKind.ARRAY, *self._place())
        for _ in self._elements("]", node):
            node.items.append(self._value())
        return node

    def _elements(self, closer: str, node: JsonNode) -> Iterator[None]:
        """Stands before each element of the list or object at hand, in the end behind its closer."""
        self._at += 1
        while True:
            self._skip()
            if self._text.startswith(closer, self._at):
                break
            self._refuse_end(closer, node)
            yield
            self._skip()
            if self._text.startswith(closer, self._at):
                break
            self._refuse_end(closer, node)
            self._comma(closer)
        self._at += 1

    def _refuse_end(self, closer: str, node: JsonNode) -> None:
        if self._at >= len(self._text):
            kind = "list" if closer == "]" else "object"
            message = f"the {kind} that starts here is never closed"
            raise SyntaxStop(Problem(node.line, node.column, message, f"add the missing '{closer}'"))

    def _comma(self, closer: str) -> None:
        if not self._text.startswith(",", self._at):
            raise self._stop(f"',' or '{closer}' was expected here")
        comma = self._place()
        self._at += 1
        self._skip()
        if self._text.startswith(closer, self._at):
            raise SyntaxStop(Problem(*comma, f"',' stands before '{closer}'", "remove it"))

    def _string(self) -> str:
        try:
            text, self._at = scanstring(self._text, self._at + 1, True)
        except JSONDecodeError as error:
            line, column = self._place()
            if error.pos > self._at:
                line, column = self._place(error.pos)
            raise SyntaxStop(Problem(line, column, f"this text is no JSON string: {error.msg}")) from None
        try:
            text.encode("utf-8")
        except UnicodeEncodeError:
            raise self._stop("the string that ends here has one half of a surrogate pair", "write both") from None
        return str(text)

    def _word(self, line: int, column: int) -> JsonNode:
        word = self._peek_word()
        if word in _WORDS:
            self._at += len(word)
            return JsonNode(JsonKind.WORD, line, column, word)
        if word in _PYTHON_WORDS:
            raise self._stop(f"JSON has no '{word}'", f"write {_PYTHON_WORDS[word]}")
        if word.startswith("'"):
            raise self._stop("JSON has no text in single quotes", 'use double quotes: "…"')
        if word.startswith(("//", "/*", "#")):
            raise self._stop("JSON has no comments", "remove it")
        if not word and self._at >= len(self._text):
            raise self._stop("a value was expected here, not the end of the text")
        remedy = "" if self._depth else 'the configuration of a load request is JSON, like {"backend": "onnxruntime"}'
        raise self._stop(f"'{shown(word) or self._text[self._at]}' stands where a JSON value was expected", remedy)

    def _peek_word(self) -> str:
        match = _WORD.match(self._text, self._at)
        return match.group() if match is not None else ""

    def _skip(self) -> None:
        match = _SPACE.match(self._text, self._at)
        self._at = match.end() if match is not None else self._at

    def _place(self, at: int | None = None) -> tuple[int, int]:
        """Line and column of a position; positions are asked for in rising order, so each line is counted once."""
        at = self._at if at is None else at
        newlines = self._text.count("\n", self._counted, at)
        if newlines:
            self._line += newlines
            self._line_start = self._text.rfind("\n", 0, at) + 1
        self._counted = at
        return self._line, at - self._line_start + 1

    def _stop(self, message: str, remedy: str = "") -> SyntaxStop:
        return SyntaxStop(Problem(*self._place(), message, remedy))
