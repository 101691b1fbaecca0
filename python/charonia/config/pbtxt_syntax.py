"""Protobuf text format as a tree of entries with their places; knows the grammar, not the schema."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from charonia.config.pbtxt_tokens import Kind, Problem, SyntaxStop, Token, tokenize
from charonia.core.text import shown

_MAX_DEPTH = 64
MOST_PROBLEMS = 50
"""After so many mistakes the rest is not looked at: it is probably no configuration, and nobody reads on."""
_CLOSERS = {"{": "}", "<": ">", "[": "]"}


@dataclass(slots=True)
class Scalar:
    """A value as written: `kind` STRING (`data` has its bytes), NUMBER or NAME (`text` has the sign too)."""

    kind: Kind
    text: str
    line: int
    column: int
    data: bytes = b""

    @property
    def shown(self) -> str:
        """`text` as a message shows it."""
        return shown(self.text)


@dataclass(slots=True)
class Block:
    """What stands between braces, or the whole file."""

    line: int
    column: int
    entries: "list[Entry]" = field(default_factory=list)


@dataclass(slots=True)
class Entry:
    """`name: value`, `name { … }` or `name: [ … ]`. `is_list` says that the values stood in brackets."""

    name: str
    line: int
    column: int
    values: list[Scalar | Block] = field(default_factory=list)
    is_list: bool = False


def parse_tree(text: str) -> tuple[Block, list[Problem]]:
    """The tree of `text`, as far as it could be read, and what is wrong with its grammar.

    Mistakes with one obvious meaning (`=` for `:`, a forgotten comma) are reported and reading goes on; at the first
    other one it stops, so that at most one problem is a consequence of none.
    """
    problems: list[Problem] = []
    root = Block(1, 1)
    try:
        _Parser(tokenize(text), problems).fill(root)
    except SyntaxStop as stop:
        problems.append(stop.problem)
    return root, problems


# Of a model configuration; their entries are written as messages with a key and a value.
_MAPS = ("input_map", "output_map", "parameters", "inputs", "cc_model_filenames", "metric_tags")


class _Parser:
    def __init__(self, tokens: Iterator[Token], problems: list[Problem]) -> None:
        self._tokens = tokens
        self._problems = problems
        self._token = next(tokens)
        self._last = self._token
        self._ahead: Token | None = None
        self._depth = 0

    def fill(self, block: Block, opener: Token | None = None, owner: str = "") -> None:
        """Read entries into `block` up to its closing brace, or to the end of the file for the outermost."""
        closer = _CLOSERS[opener.text] if opener is not None else ""
        while not self._at(closer):
            if self._token.kind is Kind.END:
                if opener is not None:
                    self._note(opener, f"'{opener.text}' of '{owner}' is never closed", f"add the missing '{closer}'")
                return
            if opener is not None and self._token.kind is Kind.SYMBOL and self._token.text in "}>]":
                wrong = self._token
                raise self._stop(
                    wrong,
                    f"'{wrong.text}' comes before '{opener.text}' of '{owner}' (line {opener.line}) is closed",
                    f"add the missing '{closer}'",
                )
            block.entries.append(self._entry(owner))
            if self._token.text in (",", ";") and self._token.kind is Kind.SYMBOL:
                self._next()
        if opener is not None:
            self._next()

    def _entry(self, owner: str) -> Entry:
        token = self._name(owner)
        entry = Entry(token.text, token.line, token.column)
        colon = self._colon(entry)
        if self._at("["):
            entry.is_list = True
            self._list(entry)
        else:
            entry.values.append(self._value(entry))
        value = entry.values[0] if entry.values else None
        if not colon and isinstance(value, Scalar):
            at = Token(Kind.NAME, entry.name, entry.line, entry.column)
            written = f"[ {value.shown}, … ]" if entry.is_list else value.shown
            self._note(at, f"'{entry.name}' has no ':' before its value", f"write '{entry.name}: {written}'")
        return entry

    def _name(self, owner: str) -> Token:
        token = self._token
        if token.kind is Kind.NAME:
            return self._next()
        if token.kind is Kind.STRING:
            name = token.data.decode("utf-8", "replace")
            message = f"the field name {token.text} stands in quotes"
            if owner in _MAPS:
                raise self._stop(token, message, f"write key: {token.text} value: …")
            self._note(token, message, f"write {name} without quotes")
            self._next()
            return Token(Kind.NAME, name, token.line, token.column)
        if token.text in ("}", "]", ">"):
            raise self._stop(token, f"'{token.text}' closes nothing", "remove it, or add what opens it")
        if token.text == "[":
            raise self._stop(token, "extensions and Any fields ('[name] …') are not part of a model configuration")
        if token.text == "{":
            remedy = "put the field's name before it"
            if self._last is token:  # the file begins with it
                remedy = "this is protobuf text, not JSON: remove the outer braces"
            raise self._stop(token, "'{' stands where a field name was expected", remedy)
        raise self._stop(token, f"{_shown(token)} stands where a field name was expected")

    def _colon(self, entry: Entry) -> bool:
        if self._at("="):
            self._note(self._token, f"'=' after '{entry.name}'", "write ':' instead")
            self._next()
            return True
        if self._at(":"):
            self._next()
            return True
        return False

    def _value(self, entry: Entry) -> Scalar | Block:
        token = self._token
        if token.text in ("{", "<") and token.kind is Kind.SYMBOL:
            return self._block(entry)
        return self._scalar(entry)

    def _block(self, entry: Entry) -> Block:
        opener = self._next()
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise self._stop(opener, f"more than {_MAX_DEPTH} blocks stand inside one another")
        block = Block(opener.line, opener.column)
        self.fill(block, opener, entry.name)
        self._depth -= 1
        return block

    def _scalar(self, entry: Entry) -> Scalar:
        token = self._token
        if token.kind is Kind.STRING:
            return self._string()
        sign = ""
        if self._at("-"):
            sign = "-"
            self._next()
        elif self._at("+"):
            raise self._stop(token, f"'+' before the value of '{entry.name}'", "write the number without a plus sign")
        value = self._token
        missing = value.kind is Kind.NAME and value.line > entry.line and value.line > self._last.line
        if value.kind not in (Kind.NUMBER, Kind.NAME) or (missing and self._peek_is_field()):
            at = Token(Kind.NAME, entry.name, entry.line, entry.column)
            raise self._stop(at, f"'{entry.name}' has no value", "write one after the ':', or remove the field")
        self._next()
        return Scalar(value.kind, sign + value.text, token.line, token.column)

    def _peek_is_field(self) -> bool:
        """Whether the name at hand is followed by what follows a field's name; reads that token ahead."""
        if self._ahead is None:
            self._ahead = next(self._tokens)
        return self._ahead.kind is Kind.SYMBOL and self._ahead.text in (":", "{", "[", "=", "<")

    def _string(self) -> Scalar:
        first = self._next()
        parts = [first]
        while self._token.kind is Kind.STRING and not self._looks_like_json_key(first):
            parts.append(self._next())
        text = " ".join(part.text for part in parts)
        return Scalar(Kind.STRING, text, first.line, first.column, b"".join(part.data for part in parts))

    def _looks_like_json_key(self, first: Token) -> bool:
        """A quoted field name on a later line would otherwise be joined to the string before it."""
        return self._token.line > first.line and self._peek_is_field()

    def _list(self, entry: Entry) -> None:
        opener = self._next()
        if self._at("]"):
            self._next()
            return
        while True:
            if self._token.kind is Kind.END or self._token.text in ("}", ">"):
                raise self._stop(opener, f"'[' of '{entry.name}' is never closed", "add the missing ']'")
            entry.values.append(self._value(entry))
            if self._at("]"):
                break
            if self._at(",") or self._at(";"):
                self._comma(entry)
                if self._at("]"):
                    break
            elif self._starts_value(entry.values[-1]):
                self._note(self._token, f"',' is missing before this value of '{entry.name}'", "separate by commas")
            else:
                raise self._stop(opener, f"'[' of '{entry.name}' is never closed", "add the missing ']'")
        self._next()

    def _comma(self, entry: Entry) -> None:
        comma = self._next()
        if comma.text == ";":
            self._note(comma, f"';' between the values of '{entry.name}'", "separate by commas")
        if self._at("]"):
            self._note(comma, f"',' after the last value of '{entry.name}'", "remove it")

    def _starts_value(self, previous: Scalar | Block) -> bool:
        """Whether the token at hand starts another value of the kind that the list holds."""
        if isinstance(previous, Block):
            return self._at("{") or self._at("<")
        if self._token.kind is Kind.NAME:
            return not self._peek_is_field()
        return self._token.kind in (Kind.NUMBER, Kind.STRING) or self._at("-")

    def _at(self, symbol: str) -> bool:
        return self._token.kind is Kind.SYMBOL and self._token.text == symbol

    def _next(self) -> Token:
        self._last = self._token
        if self._ahead is not None:
            self._token, self._ahead = self._ahead, None
        elif self._token.kind is not Kind.END:
            self._token = next(self._tokens)
        return self._last

    def _note(self, at: Token, message: str, remedy: str = "") -> None:
        if len(self._problems) >= MOST_PROBLEMS:
            raise self._stop(at, "there are more mistakes than these from here on")
        self._problems.append(Problem(at.line, at.column, message, remedy))

    def _stop(self, at: Token, message: str, remedy: str = "") -> SyntaxStop:
        return SyntaxStop(Problem(at.line, at.column, message, remedy))


def _shown(token: Token) -> str:
    return "the end of the file" if token.kind is Kind.END else f"'{shown(token.text)}'"
