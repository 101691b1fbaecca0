"""What was found wrong in a configuration, where, and what would be right."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from charonia.config.places import Place
from charonia.core.errors import InvalidArgumentError
from charonia.core.text import clipped, printable


class Severity(StrEnum):
    """An ERROR keeps the model from loading; a WARNING does not."""

    ERROR = "error"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong.

    Attributes:
        path: the field, as `input[0].dims`, `parameters["threads"]`, or "" for the whole configuration.
        place: where it was written, None when it was not written anywhere.
        message: what is the case: field, value, what was expected. A sentence without its full stop.
        remedy: what to write instead, "" when the message says it already.
        snippet: lines of a configuration that would be right, "" where they can't be known.
        cause: the words by which a load that fails of this tells the same, as far as they are known.
    """

    severity: Severity
    path: str
    place: Place | None
    message: str
    remedy: str = ""
    snippet: str = ""
    cause: str = field(default="", compare=False)

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR

    def __str__(self) -> str:
        """One line: `file:line:column: message; remedy`; with the field's path where a line alone tells too little."""
        where = f"{self.place}: " if self.place is not None else ""
        if self.path and (self.place is None or self.place.by_path):
            where += f"{clipped(self.path)}: "
        what_to_do = f"; {clipped(self.remedy)}" if self.remedy else ""
        return printable(f"{where}{clipped(self.message)}{what_to_do}")

    @property
    def details(self) -> str:
        """The line of the file with a caret under the column, and the snippet, as far as they are known: indented."""
        parts = [self.place.shown() if self.place is not None else "", self.snippet]
        return "\n".join(part for part in parts if part)


@dataclass(frozen=True, slots=True)
class Completion:
    """A field that was filled in: its path, the value as it would be written, and why this value."""

    path: str
    value: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.value} ({self.reason})"


class ConfigError(InvalidArgumentError):
    """A configuration that can't be used. `findings` has all of it, `str(error)` the errors in one sentence each."""

    def __init__(self, findings: Sequence[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__("; ".join(str(finding) for finding in self.findings if finding.is_error))


def unreadable(path: object, error: OSError) -> Finding:
    """A file that is there and can't be read."""
    remedy = ""
    if isinstance(error, PermissionError):
        remedy = f"make it readable for the user that the server runs as, for example by chmod a+r '{path}'"
    return Finding(Severity.ERROR, "", Place(str(path)), f"the file can't be read: {error.strerror or error}", remedy)


def errors_in(findings: Iterable[Finding]) -> list[Finding]:
    """The findings that keep a model from loading."""
    return [finding for finding in findings if finding.is_error]


def raise_on_errors(findings: Sequence[Finding]) -> None:
    """
    Raises:
        ConfigError: there is an error among the findings.
    """
    if errors_in(findings):
        raise ConfigError(findings)
