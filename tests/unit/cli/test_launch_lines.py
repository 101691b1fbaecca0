"""Launch lines of public deployments, read as they stand."""

import shlex

import pytest

from charonia.cli.flags import FLAGS, Effect
from charonia.cli.parse import find_flag, parse_flags
from charonia.core.errors import InvalidArgumentError
from tests.unit.cli.launch_lines import REFUSED, STARTS


@pytest.mark.parametrize("line", STARTS.values(), ids=STARTS.keys())
def test_it_starts_a_server(line):
    parsed = parse_flags(shlex.split(line))
    idle = [flag for flag in _flags_of(line) if FLAGS[flag].effect is Effect.NO_EFFECT]
    assert [flag for flag in idle if not any(f"--{flag} " in remark for remark in parsed.remarks)] == []
    assert len(parsed.remarks) == len(set(parsed.remarks))


@pytest.mark.parametrize(("line", "sentence"), REFUSED.values(), ids=REFUSED.keys())
def test_it_is_wrong(line, sentence):
    with pytest.raises(InvalidArgumentError) as refusal:
        parse_flags(shlex.split(line))
    assert sentence in str(refusal.value)


def _flags_of(line):
    return {find_flag(word[2:].partition("=")[0]).name for word in shlex.split(line) if word.startswith("--")}
