"""config.pbtxt into a ModelConfig: every mistake is reported, each with its place."""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass

from charonia.config.bind import Binder
from charonia.config.findings import ConfigError, Finding, Severity, errors_in
from charonia.config.pbtxt_syntax import parse_tree
from charonia.config.pbtxt_tokens import Problem
from charonia.config.places import Place, Places
from charonia.config.schema import ModelConfig

_BOM = "\ufeff"
# A document's start; an element of a list; a field with nothing beside it and an indented field below.
_YAML = re.compile(r"^(?:---[ \t]*$|[ \t]*-[ ]+\w+:|[ \t]*\w+:[ \t]*\n(?=[ \t]+\w+:))", re.MULTILINE)
# Two lines of text without quotes; these alone may also be forgotten quotes, unless there are no brackets either.
_YAML_WORDS = re.compile(r"^\w+: +[A-Za-z]\w*[ \t]*$(?=(?s:.*)^\w+: +[A-Za-z]\w*[ \t]*$)", re.MULTILINE)
LIMIT_BYTES = 1 << 20
"""Hundreds of times what configurations have; the worst text of this size takes seconds (17 µs a list element)."""


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
    text = _decode(source.encode("utf-8", "surrogatepass") if isinstance(source, str) else source, file)
    tree, problems = parse_tree(text)
    binder = Binder(file, text.split("\n"))
    config = ModelConfig()
    binder.bind(config, tree)
    places = binder.places
    findings = [_finding(problem, places) for problem in problems] + binder.findings
    if errors_in(findings):
        raise ConfigError([*_as_yaml(text, places), *sorted(findings, key=_position)])
    return Document(config, places, tuple(findings))


def _decode(source: bytes, file: str) -> str:
    """The text; bytes that are not UTF-8 are kept, since a comment may have them.

    Raises:
        ConfigError: this is certainly no config.pbtxt, so that its first odd character would be the wrong complaint.
    """
    if len(source) > LIMIT_BYTES:
        message = f"this has at least {len(source)} bytes, more than the {LIMIT_BYTES} that a configuration may have"
        raise _refusal(file, message, "is it a model file under this name? Large data belongs into files beside it")
    if source.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise _refusal(file, "this is UTF-16 text", "save the file as UTF-8 text")
    if source.startswith(b"version https://git-lfs.github.com/spec/"):
        message = "this is a Git LFS pointer, a few lines of text in place of the real file"
        raise _refusal(file, message, "fetch it where the repository was cloned: git lfs install && git lfs pull")
    text = source.decode("utf-8", "surrogateescape")
    return text.removeprefix(_BOM).replace("\r\n", "\n")


def _refusal(file: str, message: str, remedy: str) -> ConfigError:
    return ConfigError([Finding(Severity.ERROR, "", Place(file, 1, 1), message, remedy)])


def _as_yaml(text: str, places: Places) -> Iterator[Finding]:
    """What is said first of a text that is wrong, when it is wrong all over because it is YAML."""
    match = _YAML.search(text) or (_YAML_WORDS.search(text) if not set(text) & set('{}[]<>"') else None)
    if match is None:
        return
    place = places.place(text.count("\n", 0, match.start()) + 1, 1)
    message = "this looks like YAML; config.pbtxt is protobuf text"
    yield Finding(Severity.ERROR, "", place, message, 'write name: "x" for text and input [ { name: "x" } ] for a list')


def _finding(problem: Problem, places: Places) -> Finding:
    return Finding(Severity.ERROR, "", places.place(problem.line, problem.column), problem.message, problem.remedy)


def _position(finding: Finding) -> tuple[int, int]:
    place = finding.place
    return (place.line or 0, place.column or 0) if place is not None else (0, 0)
