import pytest

from charonia.control.versions import parse_version
from charonia.core.errors import InvalidArgumentError


@pytest.mark.parametrize(
    ("text", "number"), [("", -1), ("0", 0), ("3", 3), ("0" * 50 + "1", 1), ("9223372036854775807", 2**63 - 1)]
)
def test_versions(text, number):
    assert parse_version(text, "m") == number


@pytest.mark.parametrize("text", ["x", "-1", "+1", " 1", "1.0", "9223372036854775808", "٣", "9" * 5000])
def test_no_versions(text):
    with pytest.raises(
        InvalidArgumentError, match="failed to get model version from specified version string"
    ) as error:
        parse_version(text, "m")
    assert "'m'" in str(error.value)
    assert len(str(error.value)) < 400
