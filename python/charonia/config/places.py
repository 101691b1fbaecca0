"""Where each field of a configuration was written."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_LAST_STEP = re.compile(r'(?:\.?[^.\[\]"]+|\[\d+\]|\["(?:[^"\\]|\\.)*"\])$')


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a source: line and column from 1, None when only the file is known; `text` is the whole line."""

    file: str
    line: int | None = None
    column: int | None = None
    text: str = ""

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)

    def shown(self) -> str:
        """The source line with a caret under the column, "" when the line is not known."""
        if self.line is None or self.column is None:
            return ""
        lead = "".join("\t" if character == "\t" else " " for character in self.text[: self.column - 1])
        return f"    {self.text}\n    {lead}^"


class Places:
    """The places of all fields of one source, by paths as `input[0].dims` and `parameters["threads"].string_value`.

    A repeated field has a place for the field and one for each element; a message field stands where its name stands.
    """

    __slots__ = ("_at", "_lines", "file")

    def __init__(self, file: str, lines: Sequence[str] = (), at: Mapping[str, tuple[int, int]] | None = None) -> None:
        self.file = file
        self._lines = lines
        self._at = at if at is not None else {}

    def __contains__(self, path: str) -> bool:
        """Whether the field was written, as opposed to filled in."""
        return path in self._at

    def paths(self) -> Iterable[str]:
        """The fields that were written."""
        return self._at.keys()

    def find(self, path: str) -> Place | None:
        """The place of `path`, else of the nearest field around it, else the file; None without a file."""
        while path:
            position = self._at.get(path)
            if position is not None:
                return self.place(*position)
            path = _LAST_STEP.sub("", path) if _LAST_STEP.search(path) else ""
        return Place(self.file) if self.file else None

    def place(self, line: int, column: int) -> Place:
        """The place at a line and column of this source."""
        if not line:  # JSON is read without places
            return Place(self.file)
        text = self._lines[line - 1] if 0 < line <= len(self._lines) else ""
        return Place(self.file, line, column, text)


NO_PLACES = Places("")
