"""The truth tables of docs/readiness.md are what the code does; the table that the wire answers from."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product, takewhile
from pathlib import Path

import pytest

from charonia.backends.python.restart import Deaths, RestartPolicy
from charonia.repository.directory import Directory
from charonia.repository.readiness import readiness_table, server_ready, version_ready
from charonia.repository.states import ModelRecord, State, VersionRecord

PAGE = Path(__file__).parents[3] / "docs" / "readiness.md"
YES_NO = {"yes": (True,), "no": (False,), "any": (True, False)}


def rows(name: str) -> list[list[str]]:
    """The body of the table that follows the mark."""
    lines = PAGE.read_text().split(f"<!-- table: {name} -->\n")[1].splitlines()
    table = list(takewhile(lambda line: line.startswith("|"), lines))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]


def server_cases() -> Iterator[tuple[tuple[bool, ...], bool]]:
    for *inputs, ready in rows("server"):
        for case in product(*(YES_NO[cell] for cell in inputs)):
            yield case, ready == "yes"


@pytest.mark.parametrize("row", rows("version"), ids=" ".join)
def test_versions(row: list[str]) -> None:
    state, instances, ready = row
    assert version_ready(State(state), int(instances.split()[0])) is (ready == "yes")


def test_the_version_table_has_every_state() -> None:
    assert {row[0] for row in rows("version")} == set(State)


@pytest.mark.parametrize(("case", "ready"), list(server_cases()))
def test_servers(case: tuple[bool, ...], ready: bool) -> None:
    live, loaded, exiting, strict, all_ready = case
    wanted = [True, True] if all_ready else [True, False]
    assert server_ready(live=live, loaded=loaded, exiting=exiting, strict=strict, wanted=wanted) is ready


def test_the_server_table_has_every_case_and_contradicts_itself_nowhere() -> None:
    cases = dict(server_cases())
    assert set(cases) == set(product((True, False), repeat=5))
    assert len(set(server_cases())) == len(cases)


def test_a_server_without_models_is_ready() -> None:
    assert server_ready(live=True, loaded=True, exiting=False, strict=True, wanted=[])


@pytest.mark.parametrize("row", rows("deaths"), ids=" ".join)
def test_deaths(row: list[str]) -> None:
    count, span, gives_up = row
    deaths, span_s = int(count), float(span.removesuffix(" s"))
    clock = iter([span_s * number / max(1, deaths - 1) for number in range(deaths)])
    record = Deaths(RestartPolicy(), lambda: next(clock))
    waits = [record.record() for _ in range(deaths)]
    assert (waits[-1] is None) is (gives_up == "yes")
    assert None not in waits[:-1]


@dataclass
class Loaded:
    live_instances: int
    route: int
    version_text: str
    decoupled: bool = False


def test_the_table_of_the_wire_has_every_version_and_the_default() -> None:
    models = {
        "m": ModelRecord(
            "m",
            versions={
                1: VersionRecord(1, State.READY, loaded=Loaded(1, 11, "1")),
                2: VersionRecord(2, State.READY, loaded=Loaded(0, 12, "2", decoupled=True)),
                3: VersionRecord(3, State.UNAVAILABLE, "broken"),
            },
        ),
        "unread": ModelRecord("unread", reason="no config"),
    }
    assert readiness_table(Directory.of(models)) == {
        ("m", "1"): (True, 11, False),
        ("m", "2"): (False, 12, True),
        ("m", "3"): (False, 0, False),
        ("m", ""): (False, 12, True),
        ("unread", ""): (False, 0, False),
    }
