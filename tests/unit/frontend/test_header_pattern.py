"""Headers as parameters."""

import pytest

from charonia.core.errors import InvalidArgumentError
from charonia.frontend.header_pattern import check_header_pattern, with_headers


def test_headers_become_parameters_and_count_more() -> None:
    headers = [("X-User", "alice"), ("x-user", "bob"), ("n", "1"), ("n", "2")]
    assert with_headers({"a": 1, "n": 0}, headers) == {"a": 1, "X-User": "alice", "x-user": "bob", "n": "2"}
    assert with_headers({"a": 1}, []) == {"a": 1}


@pytest.mark.parametrize("name", ["priority", "timeout", "sequence_id", "headers", "triton_anything"])
def test_names_of_the_server_are_refused(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"Header '{name}' is reserved for Triton usage and cannot be"):
        with_headers({}, [("other", "1"), (name, "1")])
    assert with_headers({}, [(name.upper(), "1")]) == {name.upper(): "1"}


def test_a_pattern_that_can_not_be_read_names_the_flag() -> None:
    check_header_pattern("(?i)^x-.*|trace", "http")
    with pytest.raises(InvalidArgumentError, match=r"--grpc-header-forward-pattern: .*"):
        check_header_pattern("(unclosed", "grpc")
    with pytest.raises(InvalidArgumentError, match="look-around"):
        check_header_pattern("(?=x)", "http")
