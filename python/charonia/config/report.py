"""Collects findings about one configuration."""

from charonia.config.findings import Finding, Severity
from charonia.config.places import Places


class Report:
    """`findings` in the order in which they were made. Paths are as in Places."""

    __slots__ = ("_places", "findings")

    def __init__(self, places: Places) -> None:
        self._places = places
        self.findings: list[Finding] = []

    def error(self, path: str, message: str, remedy: str = "") -> None:
        self.findings.append(Finding(Severity.ERROR, path, self._places.find(path), message, remedy))

    def warn(self, path: str, message: str, remedy: str = "") -> None:
        self.findings.append(Finding(Severity.WARNING, path, self._places.find(path), message, remedy))

    def line_of(self, path: str) -> str:
        """` (line 3)` when the field was written in a file, "" when not: to refer to a second place."""
        place = self._places.find(path) if path in self._places else None
        return f" (line {place.line})" if place is not None and place.line is not None else ""
