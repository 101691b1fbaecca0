"""Every row of `data/` is asked of a server, and its answer compared with what stands there."""

import re
from pathlib import Path

import pytest

from tests.facts.compare import check, differences
from tests.facts.rows import HERE, Fact, Subject, read, subjects
from tests.facts.served import replay

_PAGE = Path(__file__).parents[2] / "docs" / "compatibility.md"
_SUBJECTS = {subject.name: subject for subject in subjects()}
_FACTS = [fact for subject in _SUBJECTS.values() for fact in subject.facts]


@pytest.fixture(scope="session")
def replayed(tmp_path_factory):
    """The answers to a subject's rows; each subject is replayed once, when first asked for."""
    known = {}

    def answers_of(subject: Subject):
        if subject.name not in known:
            known[subject.name] = replay(subject, tmp_path_factory.mktemp(subject.name))
        return known[subject.name]

    return answers_of


@pytest.mark.parametrize("fact", [pytest.param(each, id=each.name) for each in _FACTS])
def test_the_answer_is_as_recorded(fact: Fact, replayed):
    got = replayed(_SUBJECTS[fact.subject])[fact.number - 1]
    check(fact, got)


@pytest.mark.parametrize("fact", [pytest.param(each, id=each.name) for each in _FACTS if each.ours])
def test_what_is_said_to_differ_differs(fact: Fact):
    assert fact.because
    assert set(fact.ours) <= set(differences(fact.triton, fact.expected))


def test_reasons_are_rows_of_the_page_on_compatibility():
    rows = re.findall(r"^\| ([^|]+?) \|", _PAGE.read_text().split("## Where Charonia differs on purpose")[1], re.M)
    starts = read(HERE / "data" / "start.toml").facts
    assert {reason for fact in [*_FACTS, *starts] for reason in fact.because} <= set(rows)


def test_a_row_with_reasons_says_what_differs():
    assert [fact.name for fact in _FACTS if bool(fact.because) != bool(fact.ours)] == []
