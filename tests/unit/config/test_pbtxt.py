"""Every legal form of the text format is read as protobuf reads it."""

# One case a line reads best as a table.
# ruff: noqa: E501

import pytest
from google.protobuf import text_format
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.grpc import model_config_pb2

from charonia.config.findings import ConfigError, Finding, Severity
from charonia.config.pbtxt import parse_pbtxt
from charonia.config.schema import ModelConfig

LEGAL = {
    "empty": "",
    "only comments": "# nothing\n   # here\n",
    "colon before a block": 'name: "m" dynamic_batching: { }',
    "no colon before a block": "dynamic_batching {max_queue_delay_microseconds:100}",
    "angle brackets": "dynamic_batching < preserve_ordering: true >",
    "angle brackets with a colon": "dynamic_batching: < >",
    "commas between fields": 'name: "m", max_batch_size: 8, backend: "python"',
    "semicolons between fields": 'name: "m"; max_batch_size: 8;',
    "comma after the last field": "instance_group { count: 1, kind: KIND_CPU, }",
    "list of blocks": 'input [ { name: "a" }, { name: "b" } ] input: [{name:"c"}]',
    "repeated without brackets": "input { dims: 1 dims: 2 dims: -1 }",
    "brackets and repeats mixed": "input { dims: [ 1, 2 ] dims: 3 }",
    "empty list": "input { dims: [] }",
    "list over lines": "input {\n dims: [\n 1,\n # why\n 2\n ]\n}",
    "enum by number": 'input { name: "a" data_type: 11 }',
    "enum by name": "input { data_type: TYPE_BF16 format: FORMAT_NCHW }",
    "single quotes": "name: 'it\"s'",
    "string pieces are joined": 'name: "a" \'b\'\n  "c"',
    "escapes": r'name: "\n\t\"\\\x41\101\u00e9\U0001F600\'"',
    "bytes that make UTF-8 together": r'name: "\303\251"',
    "text beyond ASCII": 'name: "模型 é 🙂"',
    "hexadecimal and octal": "max_batch_size: 0x10 instance_group { gpus: [ 0X1, 010 ] }",
    "negative": "input { dims: -1 dims: -0x10 }",
    "booleans": "dynamic_batching { preserve_ordering: t } input { optional: 1 is_shape_tensor: False }",
    "floats": "model_metrics { metric_control { histogram_options { buckets: [ 1, .5, 1e3, 2.5f, -1.E-2, inf, -inf ] } } }",
    "map entries": 'parameters { key: "a" value { string_value: "1" } } parameters: { key: "b" value: { } }',
    "map in a list": 'parameters [ { key: "a" value { string_value: "1" } }, { value: { } key: "b" } ]',
    "map with commas inside": 'parameters: { key: "a", value: { string_value: "1" } },',
    "map of text": 'metric_tags { key: "a" value: "b" } metric_tags { key: "c" }',
    "map with numbers for keys": "dynamic_batching { priority_queue_policy { key: 1 value { max_queue_size: 2 } } }",
    "map entry without a key": 'parameters { value { string_value: "1" } }',
    "oneof set once": "version_policy: { all { }}",
    "oneof with a list": "version_policy: { specific: { versions: [1, 3] } }",
    "nothing between tokens": 'name:"m"input[{name:"a"dims:[1]}]instance_group{kind:KIND_CPU}',
    "windows line ends": 'name: "m"\r\nmax_batch_size: 8\r\n',
    "tabs and form feeds": 'name:\t"m"\f\v max_batch_size:\t1',
    "limits": "max_batch_size: 2147483647 input { dims: [ -9223372036854775808, 9223372036854775807 ] }"
    " dynamic_batching { priority_levels: 18446744073709551615 }",
    "names that look like keywords": 'input { name: "true" } parameters { key: "inf" value { string_value: "nan" } }',
}


@pytest.mark.parametrize("text", LEGAL.values(), ids=LEGAL.keys())
def test_legal_forms_are_read_as_protobuf_reads_them(text: str) -> None:
    expected = text_format.Parse(text, model_config_pb2.ModelConfig())
    config = parse_pbtxt(text, "config.pbtxt").config
    assert config.SerializeToString(deterministic=True) == expected.SerializeToString(deterministic=True)


def test_a_sign_may_stand_apart() -> None:
    # As in protobuf's C++ parser, which Triton uses; its Python parser refuses it.
    assert list(parse_pbtxt("input { dims: - 1 }", "c").config.input[0].dims) == [-1]


def test_a_byte_order_mark_is_skipped() -> None:
    assert parse_pbtxt(b'\xef\xbb\xbfname: "m"', "config.pbtxt").config.name == "m"


def test_a_map_entry_without_a_key_is_warned_of() -> None:
    (warning,) = parse_pbtxt('metric_tags { value: "x" }', "c").warnings
    assert warning.severity is Severity.WARNING
    assert str(warning) == "c:1:13: an entry of 'metric_tags' has no key; add key: \"…\""


def test_places_of_fields() -> None:
    text = 'name: "m"\ninput [\n  { name: "a" dims: [ 3, -1 ] },\n  { name: "b" }\n]\nparameters { key: "x"\n value { string_value: "1" } }\n'
    places = parse_pbtxt(text, "m/config.pbtxt").places
    expected = {
        "name": "m/config.pbtxt:1:1",
        "input": "m/config.pbtxt:2:1",
        "input[0]": "m/config.pbtxt:3:3",
        "input[0].name": "m/config.pbtxt:3:5",
        "input[0].dims": "m/config.pbtxt:3:15",
        "input[0].dims[1]": "m/config.pbtxt:3:26",
        "input[1]": "m/config.pbtxt:4:3",
        'parameters["x"]': "m/config.pbtxt:6:1",
        'parameters["x"].string_value': "m/config.pbtxt:7:10",
    }
    assert {path: str(places.find(path)) for path in expected} == expected


@pytest.mark.parametrize(
    ("path", "where"),
    [
        ("input[0].data_type", "c:2:1"),
        ("input[0].reshape.shape[3]", "c:2:1"),
        ("input[7].dims", "c:2:1"),
        ("max_batch_size", "c"),
        ('parameters["a.b[0]"].string_value', "c"),
    ],
)
def test_a_field_that_was_not_written_stands_where_what_is_around_it_stands(path: str, where: str) -> None:
    places = parse_pbtxt('name: "m"\ninput { name: "a" }', "c").places
    assert path not in places
    assert str(places.find(path)) == where


def refusals(source: str | bytes) -> list[Finding]:
    try:
        parse_pbtxt(source, "c")
    except ConfigError as error:
        return list(error.findings)
    return []


@given(st.text(alphabet="name_input{}[]<>:,;\"'\\ \n#=-+0123456789.xeE\t模", max_size=60))
def test_any_text_is_read_or_refused_with_places(text: str) -> None:
    assert all(finding.place is not None and finding.place.line for finding in refusals(text))


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    assert all(finding.place is not None and finding.place.line for finding in refusals(data))


_TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)


@given(
    name=_TEXT,
    size=st.integers(0, 2**31 - 1),
    dims=st.lists(st.integers(-(2**63), 2**63 - 1)),
    tags=st.dictionaries(_TEXT, _TEXT),
)
def test_what_protobuf_prints_is_read_back(name: str, size: int, dims: list[int], tags: dict[str, str]) -> None:
    config = ModelConfig(name=name, max_batch_size=size, metric_tags=tags)
    config.input.add(name=name, dims=dims)
    assert parse_pbtxt(text_format.MessageToString(config), "c").config == config
    assert parse_pbtxt(text_format.MessageToString(config, as_one_line=True), "c").config == config
