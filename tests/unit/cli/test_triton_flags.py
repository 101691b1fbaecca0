"""The table of flags against the list of Triton's."""

import pytest

from charonia.cli.flags import FLAGS, OWN
from charonia.cli.parse import find_flag, parse_flags
from charonia.cli.usage import usage
from charonia.cli.values import boolean
from tests.unit.cli.triton_flags import BOOLEANS, INTEGERS, NUMBERS, SETTINGS, TEXTS, WITHOUT_VALUE

ALL = (*WITHOUT_VALUE, *BOOLEANS, *INTEGERS, *NUMBERS, *TEXTS, *SETTINGS)
REPOSITORY = "--model-repository=/models"


def test_the_same_flags_and_a_few_of_our_own():
    assert set(FLAGS) == set(ALL) | OWN
    assert not OWN.intersection(ALL)


def test_the_same_ones_take_a_value():
    assert {name for name in ALL if FLAGS[name].convert is None} == set(WITHOUT_VALUE)
    assert [name for name in ALL if FLAGS[name].convert is boolean] == [name for name in ALL if name in BOOLEANS]


@pytest.mark.parametrize("name", BOOLEANS)
@pytest.mark.parametrize("spelling", ["False", "off", "0"])
def test_every_boolean_is_read_in_both_forms(name, spelling):
    joined, apart = parse_flags([REPOSITORY, f"--{name}={spelling}"]), parse_flags([REPOSITORY, f"--{name}", spelling])
    assert joined == apart


@pytest.mark.parametrize("name", INTEGERS)
def test_every_number_is_read_in_both_forms(name):
    joined, apart = parse_flags([REPOSITORY, f"--{name}=7"]), parse_flags([REPOSITORY, f"--{name}", "7"])
    assert joined == apart


@pytest.mark.parametrize("name", ALL)
def test_what_is_unambiguous_there_is_unambiguous_here(name):
    beginnings = [name[:length] for length in range(1, len(name) + 1)]
    enough = [begin for begin in beginnings if [each for each in ALL if each.startswith(begin)] == [name]]
    assert {find_flag(begin).name for begin in enough} <= {name}


@pytest.mark.parametrize("name", ALL)
def test_underscores_lead_to_the_flag(name):
    if "-" in name:
        with pytest.raises(
            Exception, match=rf"unrecognized option '--{name.replace('-', '_')}'; did you mean --{name}\?"
        ):
            parse_flags([f"--{name.replace('-', '_')}=1"])


def test_every_deprecated_flag_says_what_to_use():
    text = usage("tritonserver")
    deprecated = text[text.index("Deprecated:") :].strip().splitlines()[1:]
    assert len(deprecated) == 7
    assert [line for line in deprecated if " Use --" not in line] == []
