"""config.pbtxt, and the same in JSON, into a ModelConfig: every mistake is reported, each with its place."""

from dataclasses import dataclass

from charonia.config.bind import Binder
from charonia.config.findings import ConfigError, Finding, Severity, errors_in
from charonia.config.pbtxt_syntax import parse_tree
from charonia.config.pbtxt_tokens import Problem
from charonia.config.places import Place, Places
from charonia.config.schema import ModelConfig

_BOM = "\ufeff"


@dataclass(frozen=True, slots=True)
class Document:
    """A configuration as it was written, where, and the warnings about how."""

    config: ModelConfig
    places: Places
    warnings: tuple[Finding, ...] = ()


def parse_pbtxt(source: str | bytes, file: str) -> Document:
    """Read protobuf text format.

    Args:
        source: the file's content.
        file: its name for messages.

    Raises:
        ConfigError: with all findings, in the file's order.
    """
    text = _decode(source, file) if isinstance(source, bytes) else source
    text = text.removeprefix(_BOM).replace("\r\n", "\n")
    lines = text.split("\n")
    tree, problems = parse_tree(text)
    binder = Binder(file, lines)
    config = ModelConfig()
    binder.fill(config, tree)
    places = binder.places
    findings = [_finding(problem, places) for problem in problems] + binder.findings
    if errors_in(findings):
        raise ConfigError(sorted(findings, key=_position))
    return Document(config, places, tuple(findings))


def _decode(source: bytes, file: str) -> str:
    try:
        return source.decode("utf-8")
    except UnicodeDecodeError as error:
        before = source[: error.start]
        line = before.count(b"\n") + 1
        column = error.start - (before.rfind(b"\n") + 1) + 1
        message = f"byte 0x{source[error.start]:02x} is not UTF-8 text"
        place = Place(file, line, column)
        raise ConfigError([Finding(Severity.ERROR, "", place, message, "save the file as UTF-8 text")]) from None


def _finding(problem: Problem, places: Places) -> Finding:
    return Finding(Severity.ERROR, "", places.place(problem.line, problem.column), problem.message, problem.remedy)


def _position(finding: Finding) -> tuple[int, int]:
    place = finding.place
    return (place.line or 0, place.column or 0) if place is not None else (0, 0)
