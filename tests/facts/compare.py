"""Compares the parts of two answers."""

import re
from typing import Any

import pytest

from tests.facts.rows import Answer, Fact

# A float with as many digits as FP64 has: the last one depends on the algorithm that wrote it, the value does not.
_ALL_DIGITS = re.compile(r"(?<![\w.])-?\d+\.\d{8,}(?:e-?\d+)?(?![\w.])|(?<![\w.])-?\d{15,}\.\d+(?![\w.])")


def check(fact: Fact, got: Answer) -> None:
    """Fail unless this is the answer of the row. A row of what comes later is skipped, until it holds."""
    wrong = differences(fact.expected, got)
    if fact.later and wrong:
        pytest.skip(f"needs {fact.later}")
    assert not fact.later, f"{fact.later}: this holds now, so take `later` out of the row"
    assert not wrong, {part: (fact.expected.get(part), got.get(part)) for part in wrong}


def differences(expected: Answer, got: Answer) -> list[str]:
    """The names of the parts that differ. A part that a row does not have is empty."""
    return [part for part in sorted(expected.keys() | got.keys()) if not _agree(part, expected, got)]


def _agree(part: str, expected: Answer, got: Answer) -> bool:
    if part == "error":
        return "error" in expected and "error" in got and expected["error"] in got["error"]
    if part == "errors":
        return _contain(expected.get(part, []), got.get(part, []))
    return _of(part, expected) == _of(part, got)


def _of(part: str, answer: Answer) -> Any:
    value = answer.get(part) or None
    return _ALL_DIGITS.sub(lambda written: repr(float(written[0])), value) if isinstance(value, str) else value


def _contain(phrases: list[str], sentences: list[str]) -> bool:
    """Whether there are as many, and each has its words."""
    return len(phrases) == len(sentences) and all(words in said for words, said in zip(phrases, sentences, strict=True))
