"""Compares the parts of two answers."""

import re
from typing import Any

from tests.facts.rows import Answer

# A float with as many digits as FP64 has: the last one depends on the algorithm that wrote it, the value does not.
_ALL_DIGITS = re.compile(r"(?<![\w.])-?\d+\.\d{8,}(?:e-?\d+)?(?![\w.])|(?<![\w.])-?\d{15,}\.\d+(?![\w.])")


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
