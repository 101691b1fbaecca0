"""Odd, damaged and hostile configurations: read as protobuf reads them, or refused with places, and never slowly."""

import re
import tracemalloc
from collections.abc import Callable

import pytest
from google.protobuf import text_format
from hypothesis import given, settings
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2

from charonia.config.findings import ConfigError, Finding
from charonia.config.json_form import config_from_json
from charonia.config.pbtxt import LIMIT_BYTES, parse_pbtxt
from charonia.config.schema import ModelConfig

WHOLE = """
name: "m" platform: "onnxruntime_onnx", max_batch_size: 8 # how many
input [ { name: "a" data_type: TYPE_FP32 dims: [ 3, -1 ] reshape { shape: [ ] } }, { name: 'b' dims: 1 dims: 0x2 } ]
output { name: "o" "p" label_filename: "l\\n\\x41.txt" optional: false }
version_policy: { specific { versions: [ 1, 3 ] } }; instance_group < count: 2 kind: KIND_CPU >
parameters { key: "k" value: { string_value: "v" } } metric_tags { key: "t" value: "u" }
model_metrics { metric_control { histogram_options { buckets: [ .5, 1e3, -inf ] } } }
"""
PIECES = [
    *"{}[]<>:,;\"'\\#=-+0_. \n\t",
    *(
        "true",
        "inf",
        "TYPE_FP32",
        "input",
        "{ }",
        "[ ]",
        "0x",
        '"a"',
        "1e5",
        "-1",
        "\r\n",
        "\x00",
        "\ufeff",
        "é",
        "\u2028",
    ),
]
# What protobuf's Python parser takes and its C++ parser, which is Triton's, does not; and numbers that are no value.
STRICTER = re.compile(
    r"^'\+' before|takes a (whole )?number, got|is no escape|has no value -?\d+|twice|exclude one another"
)


@st.composite
def damaged(draw: Callable[..., object]) -> str:
    text = WHOLE
    for _ in range(draw(st.integers(1, 4))):  # type: ignore[call-overload]
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 8)))  # type: ignore[operator, call-overload]
        text = text[:start] + draw(st.sampled_from([*PIECES, ""])) + text[end:]  # type: ignore[operator, misc]
    return text


def refusals(source: str | bytes) -> list[Finding]:
    try:
        parse_pbtxt(source, "c")
    except ConfigError as error:
        return list(error.findings)
    return []


@pytest.mark.filterwarnings("ignore:invalid escape sequence")  # protobuf's own
@settings(max_examples=300, deadline=None)
@given(damaged())
def test_damaged_text_is_read_as_protobuf_reads_it_or_refused(text: str) -> None:
    try:
        theirs = text_format.Parse(text.removeprefix("\ufeff"), model_config_pb2.ModelConfig()).SerializeToString(
            deterministic=True
        )
    except text_format.ParseError:
        theirs = None
    found = refusals(text)
    if not found:
        ours = parse_pbtxt(text, "c").config.SerializeToString(deterministic=True)
        assert theirs in (None, ours), text
    assert theirs is None or all(STRICTER.search(finding.message) for finding in found), text
    assert all(finding.place is not None and finding.place.line for finding in found)
    assert all(str(finding).isprintable() for finding in found)


@settings(deadline=None)
@given(
    damaged().map(lambda text: text.encode("utf-16")) | damaged().map(lambda text: text.encode("latin-1", "replace"))
)
def test_other_encodings_are_read_or_refused(source: bytes) -> None:
    assert all(finding.place is not None and finding.place.line for finding in refusals(source))


def test_the_places_of_a_windows_file_are_right() -> None:
    (finding,) = refusals(b'\xef\xbb\xbfname: "m"\r\nmax_batch_sise: 1\r\n')
    assert f"{finding}\n{finding.details}" == (
        "c:2:1: ModelConfig has no field 'max_batch_sise'; did you mean 'max_batch_size'?\n    max_batch_sise: 1\n    ^"
    )


def test_a_comment_may_have_any_bytes() -> None:
    """As Triton's parser allows: old files have comments in Latin-1."""
    assert parse_pbtxt(b'# mod\xe8le\nname: "m" # \x00\xff\n', "c").config.name == "m"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("name: \xa0'm'", "c:1:7: the character U+00A0 looks like a space; use a plain space"),
        (b"\xff\xfen\x00", "c:1:1: this is UTF-16 text; save the file as UTF-8 text"),
        (
            b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12345\n",
            "c:1:1: this is a Git LFS pointer, a few lines of text in place of the real file; "
            "fetch it where the repository was cloned: git lfs install && git lfs pull",
        ),
        (b"name\x00", "c:1:5: the character 'U+0000' does not belong here"),
        ("name: “m”", "c:1:7: '“' is a typographic quote; use the plain quote \""),
    ],
)
def test_characters_that_only_look_right(source: str | bytes, expected: str) -> None:
    assert [str(finding) for finding in refusals(source)] == [expected]


N = 5_000
ENDLESS = {
    "lines of words": "input { format: [" + "\nFORMAT_NHWC" * N + "] }",
    "values on the next line": "input {format:\nFORMAT_NHWC}" * N,
    "strings on lines of their own": "name: " + '"a"\n' * N,
    "quoted names": '"a": 1\n' * N,
    "unknown fields": "a: 1 " * N,
    "open blocks": "input {" * N,
    "open lists": "dims: [" * N,
    "quotes": '"' * N,
    "digits": "max_batch_size: " + "1" * N,
    "a hexadecimal float": "model_metrics { metric_control { histogram_options { buckets: 0x" + "f" * N + "} } }",
    "a name": "a" * N,
    "a string": 'name: "' + "a" * N + "\n",
    "zeros": "\x00" * N,
    "numbers": "input { dims: [" + "1," * 24 * N + "1] }",
    "one key many times": 'parameters { key: "a" value { } } ' * N,
}


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS.keys())
def test_endless_repetition_is_read_or_refused_in_few_words(text: str) -> None:
    found = refusals(text)
    assert len(found) < 110
    assert all(len(str(finding)) < 3000 and len(finding.details) < 500 for finding in found)


@pytest.mark.parametrize("read", [parse_pbtxt, config_from_json])
def test_a_file_that_is_no_configuration_by_its_size_is_not_read(read: Callable[[str, str], object]) -> None:
    text = "#" * 10_000_000
    tracemalloc.start()
    with pytest.raises(ConfigError, match=r"10000000.*more than the 1048576 that a configuration may have"):
        read(text, "c")
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 3 * len(text)


def test_the_largest_configurations_are_read() -> None:
    template = "x" * (LIMIT_BYTES - 100)
    text = f'parameters {{ key: "chat_template" value {{ string_value: "{template}" }} }}'
    assert parse_pbtxt(text, "c").config.parameters["chat_template"].string_value == template


def test_what_a_terminal_would_act_on_is_not_printed() -> None:
    (finding,) = refusals('max_batch_size: "\x1b[2J\x07"')
    assert "\x1b" not in finding.details
    assert r"\x1b[2J\x07" in str(finding)


@settings(deadline=None)
@given(st.binary(max_size=60))
def test_every_message_that_protobuf_can_hold_is_printed_and_read_back(data: bytes) -> None:
    config = ModelConfig()
    config.parameters["k"].string_value = data.decode("utf-8", "replace")
    assert parse_pbtxt(text_format.MessageToString(config), "c").config == config
