"""The tables of the start-up log."""

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress

from charonia.repository.states import IndexEntry

# Of a log that is read later, in a pager or a browser.
_WIDTH_WITHOUT_TERMINAL = 140
_LEAST_COLUMN = 8
# Each finding begins with its place: `; models/m/config.pbtxt:3:5: …`.
_NEXT_FINDING = re.compile(r"; (?=[^\s;]*/[^\s;]+: |the load said: )")


def model_table(entries: Iterable[IndexEntry], width: int | None = None) -> str:
    """A row for each version, and one for each model without any: Model, Version, Status with the reason."""
    rows = [(entry.name, "-" if entry.version is None else str(entry.version), _status(entry)) for entry in entries]
    return table(("Model", "Version", "Status"), rows, width)


def _status(entry: IndexEntry) -> str:
    if entry.state is None:
        return "Not loaded"
    return f"{entry.state}: {_NEXT_FINDING.sub(chr(10), entry.reason)}" if entry.reason else str(entry.state)


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None) -> str:
    """A frame of dashes and bars. Cells may have several lines; columns wrap so that all fit in `width` characters.

    Args:
        width: None for the terminal's, or 140 without one.
    """
    cells = [[str(cell).rstrip("\n").split("\n") for cell in row] for row in (headers, *rows)]
    widths = _fit([max(len(line) for row in cells for line in row[i]) for i in range(len(headers))], width or _width())
    rule = "+" + "+".join("-" * (each + 2) for each in widths) + "+"
    head, *body = ("\n".join(_lines(row, widths)) for row in cells)
    return "\n".join([rule, head, rule, *body, rule])


def _width() -> int:
    """Of the terminal that shows the log: standard output, or standard error for a server in another program."""
    for descriptor in (1, 2):
        with suppress(OSError):
            return os.get_terminal_size(descriptor).columns or _WIDTH_WITHOUT_TERMINAL
    return _WIDTH_WITHOUT_TERMINAL


def _fit(widths: list[int], width: int) -> list[int]:
    """Shrink the widest columns until all of them, with their frames, fit."""
    room = width - 3 * len(widths) - 1
    while sum(widths) > room:
        widest = max(range(len(widths)), key=widths.__getitem__)
        others = sorted(widths)[-2] if len(widths) > 1 else 0
        smaller = max(_LEAST_COLUMN, widths[widest] - (sum(widths) - room), min(others, widths[widest] - 1))
        if smaller >= widths[widest]:
            break
        widths[widest] = smaller
    return widths


def _lines(row: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterable[str]:
    """The printed lines of one row of cells."""
    wrapped = [
        [part for line in cell for part in _chunks(line, width)] for cell, width in zip(row, widths, strict=True)
    ]
    for at in range(max(len(cell) for cell in wrapped)):
        texts = (cell[at] if at < len(cell) else "" for cell in wrapped)
        yield "|" + "|".join(f" {text:<{width}} " for text, width in zip(texts, widths, strict=True)) + "|"


def _chunks(line: str, width: int) -> Iterable[str]:
    """Pieces of at most `width`, broken at spaces, else within a path, and only else in the middle of a word."""
    while len(line) > width:
        space, slash = line.rfind(" ", 1, width + 1), line.rfind("/", 1, width) + 1
        at = space if space > 0 else slash or width
        yield line[:at]
        line = line[at:].lstrip(" ")
    yield line
