"""Where each field of a configuration was written."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

_SHOWN_BEFORE = 100
_SHOWN_AFTER = 60
_LAST_STEP = re.compile(r'(?:\.?[^.\[\]"]+|\[\d+\]|\["(?:[^"\\]|\\.)*"\])$')


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a source: line and column from 1, None when only the file is known.

    Attributes:
        text: the whole line.
        is_json: the source is JSON, of which all often stands in one line: readers find a field by its path.
    """

    file: str
    line: int | None = None
    column: int | None = None
    text: str = ""
    is_json: bool = False

    @property
    def by_path(self) -> bool:
        """Whether the field's path has to stand beside the place."""
        return self.is_json or self.line is None

    def __str__(self) -> str:
        return ":".join(str(part) for part in (self.file, self.line, self.column) if part is not None)

    def shown(self) -> str:
        """The source line, or the part of it around the column, with a caret below; "" when it is not known."""
        if self.line is None or self.column is None or not self.text:
            return ""
        start = max(0, self.column - 1 - _SHOWN_BEFORE)
        piece = self.text[start : self.column - 1 + _SHOWN_AFTER]
        text = _one_column_each(piece)
        lead = "".join("\t" if each == "\t" else " " for each in text[: self.column - 1 - start])
        before, after = ("…" if start else ""), ("…" if start + len(piece) < len(self.text) else "")
        return f"    {before}{text}{after}\n    {' ' * len(before)}{lead}^"


class Places:
    """The places of all fields of one source, by paths as `input[0].dims` and `parameters["threads"].string_value`.

    A repeated field has a place for the field and one for each element; a message field stands where its name stands.
    """

    __slots__ = ("_at", "_lines", "file", "is_json")

    def __init__(
        self,
        file: str,
        lines: Sequence[str] = (),
        at: Mapping[str, tuple[int, int]] | None = None,
        *,
        is_json: bool = False,
    ) -> None:
        self.file = file
        self.is_json = is_json
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
        if not line:
            return Place(self.file)
        text = self._lines[line - 1] if 0 < line <= len(self._lines) else ""
        return Place(self.file, line, column, text, self.is_json)


def _one_column_each(text: str) -> str:
    """Characters that a terminal would not show in one column, or would act on, replaced."""
    return "".join(each if each == "\t" or each.isprintable() else "\ufffd" for each in text)


NO_PLACES = Places("")
