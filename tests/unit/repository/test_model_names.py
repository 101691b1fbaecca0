"""Names of load requests, which become the names of folders."""

import pytest

from charonia.core.errors import InvalidArgumentError
from charonia.repository.repositories import check_model_name


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("", " ", "\t\n"), "Model name cannot be empty"),
        (("a/b", "../x", "/", "a/", "..", ".", " ..", ".. "), "model name must not contain path traversal characters"),
        (("a\nb", "\x00", "\x1b[31m", "\x9b", "\x7f"), "control characters"),
        (("\udcff", "\ud800"), "bytes that are no text"),
        (("x" * 256, "ä" * 128, "x" * 1_000_000), "longer than 255 bytes"),
    ],
)
def test_a_name_that_no_folder_can_have(names, reason):
    for name in names:
        with pytest.raises(InvalidArgumentError, match="invalid model name ") as caught:
            check_model_name(name)
        assert reason in str(caught.value)
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 400


@pytest.mark.parametrize("name", ["a b", "ünïcode", "a.b", "..a", "...", "x" * 255, "a%2Fb", "模型", "a\\b"])
def test_every_other_name_is_a_name(name):
    check_model_name(name)
