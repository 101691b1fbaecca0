"""Bodies of control requests: what is read, what is refused, and that nothing large or deep does harm."""

import json

import pytest

from charonia.core.errors import InvalidArgumentError
from charonia.frontend.control.body import MAX_BYTES, MAX_DEPTH, MAX_VALUES, Kind, parse_object

KINDS = {"flag": Kind.BOOLEAN, "count": Kind.NATURAL, "text": Kind.STRING, "more": Kind.OBJECT}


def refusal(body, **options):
    with pytest.raises(InvalidArgumentError) as caught:
        parse_object(body, "log settings", KINDS, **options)
    message = str(caught.value)
    assert message.startswith("log settings body")
    assert len(message) < 500
    return message


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"flag": True, "count": 0, "text": "", "more": {}},
        {"count": 2**70, "text": "\u0000\u2028ü[[[", "other": [1, None, -1.5]},
    ],
)
def test_what_is_right_is_read(value):
    assert parse_object(json.dumps(value).encode(), "log settings", KINDS) == value
    assert parse_object(json.dumps(value, ensure_ascii=False, indent=1).encode(), "log settings", KINDS) == value


def test_an_empty_body_is_an_empty_object():
    assert parse_object(b"", "log settings", KINDS) == {}


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"{} {}",
        b"{'flag':true}",
        b'{"flag":True}',
        b'{"flag":true,}',
        b'{"x":NaN}',
        b'{"x":-Infinity}',
        b'{"x":01}',
        b'{"x":"\n"}',
        b'{"x":"\\ud800',
        b"\xff\xfe",
        b"\xef\xbb\xbf{}",
        b'{"x":' + b"1" * 6000 + b"}",
        b'{"x":1,"x":1}',
        b'{"more":{"y":1,"y":2}}',
        b'"' * 100_001,
        b'"' + b'\\"' * 1_000_000,
    ],
)
def test_what_is_no_json_object_is_refused(body):
    refusal(body)


@pytest.mark.parametrize(
    ("member", "expected", "got"),
    [
        ('"flag":1', "a boolean", "the number 1"),
        ('"flag":"true"', "a boolean", "a string"),
        ('"flag":null', "a boolean", "null"),
        ('"count":-1', "an unsigned integer", "the number -1"),
        ('"count":1.0', "an unsigned integer", "the number 1.0"),
        ('"count":true', "an unsigned integer", "a boolean"),
        ('"text":{}', "a string", "an object"),
        ('"more":[]', "an object", "an array"),
    ],
)
def test_a_member_of_another_kind_is_named(member, expected, got):
    name = member.split('"')[1]
    assert f"Invalid value for '{name}': expected {expected}, got {got}" in refusal(f"{{{member}}}".encode())


def test_null_may_be_allowed():
    assert parse_object(b'{"flag":null}', "log settings", KINDS, nulls=True) == {"flag": None}
    assert "got the number 0" in refusal(b'{"flag":0}', nulls=True)


def nested(depth, member="x"):
    return b'{"%s":' % member.encode() + b"[" * depth + b"]" * depth + b"}"


def test_nesting_has_a_limit():
    assert parse_object(nested(MAX_DEPTH - 1), "log settings", KINDS)
    assert "JSON nesting depth exceeds maximum allowed limit (100)" in refusal(nested(MAX_DEPTH))
    assert "Invalid value for 'flag': expected a boolean" in refusal(nested(250_000, "flag"))


def test_brackets_in_strings_are_no_nesting():
    assert parse_object(b'{"x":"\\"' + b"[" * 500 + b'"}', "log settings", KINDS)


def test_the_number_of_values_has_a_limit():
    assert parse_object(b'{"x":[' + b"1," * (MAX_VALUES - 3) + b"1]}", "log settings", KINDS)
    for piece in (b"[],", b"{},", b"1,", b'"",', b'""'):
        assert "values" in refusal(b'{"x":[' + piece * 500_000 + b"1]}")


def test_the_number_of_bytes_has_a_limit_but_for_loads():
    body = b'{"x":"' + b" " * MAX_BYTES + b'"}'
    assert f"log settings body has {len(body)} bytes, expected at most {MAX_BYTES}" in refusal(body)
    assert parse_object(body, "load model", max_bytes=None)
