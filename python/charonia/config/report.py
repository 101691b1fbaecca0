"""Collects findings about one configuration."""

import re

from charonia.config.findings import Finding, Severity
from charonia.config.places import Places

# `name: ` behind "write" or "or", and a name of an enum's value. Blocks stay as they are: they show what is in them.
_FIELD = re.compile(r"\b(write|or) ([a-z_]+): (?!\{)([A-Z][A-Z0-9_]+\b)?")


def as_written(remedy: str, places: Places) -> str:
    """A remedy in the language of the source: the fields in it as JSON where that is JSON."""
    return _FIELD.sub(_json_field, remedy) if places.is_json else remedy


def _json_field(match: re.Match[str]) -> str:
    word, name, value = match.groups()
    return f'{word} "{name}": ' + (f'"{value}"' if value else "")


class Report:
    """`findings` in the order in which they were made. Paths are as in Places."""

    __slots__ = ("_places", "findings")

    def __init__(self, places: Places) -> None:
        self._places = places
        self.findings: list[Finding] = []

    def error(self, path: str, message: str, remedy: str = "") -> None:
        self._add(Severity.ERROR, path, message, remedy)

    def warn(self, path: str, message: str, remedy: str = "") -> None:
        self._add(Severity.WARNING, path, message, remedy)

    def _add(self, severity: Severity, path: str, message: str, remedy: str) -> None:
        remedy = as_written(remedy, self._places)
        self.findings.append(Finding(severity, path, self._places.find(path), message, remedy))

    def line_of(self, path: str) -> str:
        """` (line 3)` when the field was written in a file, "" when not: to refer to a second place."""
        place = self._places.find(path) if path in self._places else None
        return f" (line {place.line})" if place is not None and place.line is not None else ""
