"""What was filled in, by comparing two configurations."""

# One case a line reads best as a table.
# ruff: noqa: E501

import pytest

from charonia.config.differences import differences
from charonia.config.pbtxt import parse_pbtxt


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("max_batch_size: 1", "max_batch_size: 1", []),
        ("", "max_batch_size: 8", ["max_batch_size: 8"]),
        ("", "dynamic_batching { }", ["dynamic_batching: { }"]),
        ("dynamic_batching { }", "dynamic_batching { preserve_ordering: true }", ["dynamic_batching.preserve_ordering: true"]),
        ('input { name: "a" }', 'input { name: "a" dims: [ 1, 2 ] } input { name: "b" }', ["input[0].dims: [1, 2]", 'input[1]: { name: "b" }']),
        ("", 'parameters { key: "k" value { string_value: "v" } }', ["parameters: { k }"]),
        ("", "version_policy { all { } }", ["version_policy: { all { } }"]),
    ],
)  # fmt: skip
def test_each_field_that_is_new_or_other(before: str, after: str, expected: list[str]) -> None:
    found = differences(parse_pbtxt(before, "b").config, parse_pbtxt(after, "a").config, "so")
    assert [str(each) for each in found] == [f"{each} (so)" for each in expected]
