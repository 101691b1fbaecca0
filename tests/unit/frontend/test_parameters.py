"""The server's own request parameters."""

import pytest

from charonia.core.errors import InvalidArgumentError, UnsupportedError
from charonia.core.request import SEQUENCE_END, SEQUENCE_START
from charonia.frontend.parameters import split_parameters


def test_own_parameters_are_taken_out():
    options = split_parameters(
        {"priority": 2, "timeout": 7, "sequence_id": 9, "sequence_start": True, "sequence_end": True, "a": 1.5}
    )
    assert (options.priority, options.timeout_us, options.correlation_id) == (2, 7, 9)
    assert options.flags == SEQUENCE_START | SEQUENCE_END
    assert options.others == {"a": 1.5}


def test_ids_may_be_text_or_unsigned():
    assert split_parameters({"sequence_id": "s"}).correlation_id == "s"
    assert split_parameters({"sequence_id": -1}).correlation_id == 2**64 - 1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("priority", "1"),
        ("priority", -1),
        ("priority", True),
        ("timeout", "abc"),
        ("timeout", 1.5),
        ("sequence_id", True),
        ("sequence_id", 1.0),
        ("sequence_start", "x"),
        ("sequence_end", 1),
        ("triton_enable_empty_final_response", "true"),
    ],
)
def test_wrong_types_are_refused_by_name(key, value):
    with pytest.raises(InvalidArgumentError, match=f"invalid value type for '{key}' parameter"):
        split_parameters({key: value})


def test_names_of_the_server_are_not_the_models():
    assert split_parameters({"triton_enable_empty_final_response": True}).others == {}
    with pytest.raises(InvalidArgumentError, match="'triton_x': keys starting with 'triton_' are reserved"):
        split_parameters({"triton_x": 1})


def test_a_textual_correlation_id_has_at_most_128_bytes():
    assert split_parameters({"sequence_id": "s" * 128}).correlation_id == "s" * 128
    with pytest.raises(UnsupportedError, match="string correlation ID cannot be longer than 128 characters"):
        split_parameters({"sequence_id": "s" * 129})
