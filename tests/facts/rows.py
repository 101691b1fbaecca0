"""The rows of `data/`: what is sent, what Triton answers, and where Charonia differs."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
Answer = dict[str, Any]
"""The parts of an answer by name: `status`, `type`, `body`, …"""


@dataclass(frozen=True)
class Fact:
    """One row. `request` has the keys that say what is sent."""

    subject: str
    number: int
    about: str
    request: dict[str, Any]
    triton: Answer
    ours: Answer = field(default_factory=dict)
    because: tuple[str, ...] = ()
    later: str = ""
    since: str = "2.51"

    @property
    def name(self) -> str:
        return f"{self.subject}-{self.number}: {self.about}"

    @property
    def expected(self) -> Answer:
        """What Charonia answers; `false` says that a part of Triton's answer is not there."""
        return {part: value for part, value in {**self.triton, **self.ours}.items() if value is not False}


@dataclass(frozen=True)
class Subject:
    """One file: its server and its rows, in order. `segments` of shared memory by name, with their sizes in bytes."""

    name: str
    models: list[str]
    options: dict[str, Any]
    segments: dict[str, int]
    facts: list[Fact]


_OF_THE_FACT = {"about", "triton", "ours", "because", "later", "since"}


def read(path: Path) -> Subject:
    document = tomllib.loads(path.read_text("utf-8"))
    server = document.get("server", {})
    facts = [_fact(path.stem, number, row) for number, row in enumerate(document["fact"], 1)]
    settings = (server.get("options", {}), server.get("segments", {}))
    return Subject(path.stem, server.get("models", ["models"]), *settings, facts)


def _fact(subject: str, number: int, row: dict[str, Any]) -> Fact:
    request = {key: value for key, value in row.items() if key not in _OF_THE_FACT}
    rest = {key: value for key, value in row.items() if key in _OF_THE_FACT}
    return Fact(subject, number, request=request, **{**rest, "because": tuple(rest.get("because", ()))})


def subjects() -> list[Subject]:
    """Every file of `data/` that talks to a running server."""
    return [read(path) for path in sorted((HERE / "data").glob("*.toml")) if path.stem != "start"]
