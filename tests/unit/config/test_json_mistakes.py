"""Mistakes in the JSON of a config override: line, column and path of the field, what is wrong, what to write."""

# One case a line reads best as a table.
# ruff: noqa: E501

import json
import re

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from charonia.config.findings import ConfigError, Finding
from charonia.config.json_form import config_from_json
from charonia.config.json_syntax import JsonKind, JsonNode, parse_json
from charonia.config.pbtxt_tokens import SyntaxStop
from charonia.config.validate import validate


def refusals(text: str) -> list[Finding]:
    try:
        config_from_json(text, "o")
    except ConfigError as error:
        return list(error.findings)
    return []


SYNTAX = [
    ("{", "o:1:1: the object that starts here is never closed; add the missing '}'"),
    ("", "o:1:1: a value was expected here, not the end of the text"),
    ('{"input": [', "o:1:11: the list that starts here is never closed; add the missing ']'"),
    ('{"input": [1', "o:1:11: the list that starts here is never closed; add the missing ']'"),
    ("[]", 'o:1:1: a model configuration is a JSON object, got []; write { "max_batch_size": … }'),
    ('"python"', 'o:1:1: a model configuration is a JSON object, got "python"; write { "max_batch_size": … }'),
    ('{"a": 1,\n "a": 2}', "o:2:2: the key 'a' stands twice in one object, first on line 1; keep one of them"),
    ('{"parameters": {"k": {}, "k": {}}}', "o:1:26: the key 'k' stands twice in one object, first on line 1; keep one of them"),
    ('{"max_batch_size": 1,}', "o:1:21: ',' stands before '}'; remove it"),
    ('{"max_batch_size": 1 "name": "m"}', "o:1:22: ',' or '}' was expected here"),
    ('{"max_batch_size" 1}', "o:1:19: ':' was expected after the key 'max_batch_size'"),
    ("{max-batch-size: 1}", "o:1:2: a key in double quotes was expected here"),
    ("{max_batch_size 1}", "o:1:17: ':' was expected after the key 'max_batch_size'"),
    ("{'a': 1}", "o:1:2: a key in double quotes was expected here"),
    ('{"name": \'m\'}', "o:1:10: JSON has no text in single quotes; use double quotes: \"…\""),
    ('{"a": True}', "o:1:7: JSON has no 'True'; write true"),
    ('{"a": 1} // why', "o:1:10: there is more text after the end of the JSON; remove it"),
    ('{"a": /* why */ 1}', "o:1:7: JSON has no comments; remove it"),
    ('{"a": 0x10}', "o:1:8: ',' or '}' was expected here"),
    ('{"a": NaN}', "o:1:7: 'NaN' stands where a JSON value was expected"),
    ('{"a":\n  "never', "o:2:3: this text is no JSON string: Unterminated string starting at"),
    ('{"a": "\\q"}', "o:1:8: this text is no JSON string: Invalid \\escape"),
    ('name: "m"', "o:1:1: 'name' stands where a JSON value was expected; the configuration of a load request is JSON, like {\"backend\": \"onnxruntime\"}"),
    ("[" * 101, "o:1:101: more than 100 objects and lists stand inside one another"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), SYNTAX, ids=[str(number) for number in range(len(SYNTAX))])
def test_what_is_no_json(text: str, expected: str) -> None:
    assert [str(finding) for finding in refusals(text)] == [expected]


FIELDS = [
    ('{"max_batch_sise": 1}', "o:1:2: ModelConfig has no field 'max_batch_sise'; did you mean 'max_batch_size'?"),
    ('{"input": [\n  {"nam": "x"}]}', "o:2:4: input[0]: ModelInput has no field 'nam'; did you mean 'name'?"),
    ('{"max_batch_size": "x"}', "o:1:20: max_batch_size: 'max_batch_size' takes a whole number, got x"),
    ('{"max_batch_size": 1.5}', "o:1:20: max_batch_size: 'max_batch_size' takes a whole number, got 1.5"),
    ('{"max_batch_size": 1e400}', "o:1:20: max_batch_size: 'max_batch_size' takes a whole number, got 1e400"),
    ('{"max_batch_size": true}', "o:1:20: max_batch_size: 'max_batch_size' takes a whole number, got true"),
    ('{"max_batch_size": []}', "o:1:2: max_batch_size: 'max_batch_size' of ModelConfig takes one value, not a list; write the value without brackets"),
    ('{"max_batch_size": 1,\n "maxBatchSize": 1}', "o:2:2: max_batch_size: 'max_batch_size' is set twice in ModelConfig, first on line 1; keep one of them"),
    ('{"input": [{"dims": [1, null]}]}', "o:1:25: input[0].dims[1]: 'dims' takes a whole number, got null; write -1 for a size that varies"),
    ('{"input": [{"dims": [1, [2]]}]}', "o:1:25: input[0].dims[1]: 'dims' takes a whole number, got a list"),
    ('{"input": ["x"]}', "o:1:12: input: 'input' of ModelConfig takes a block, got \"x\"; write input { … }, whose fields are "
     "name, data_type, format, dims, reshape, is_shape_tensor, allow_ragged_batch, optional, is_non_linear_format_io"),
    ('{"input": [{"data_type": "FP32"}]}', "o:1:26: input[0].data_type: 'data_type' of ModelInput has no value FP32; did you mean TYPE_FP32? Allowed are TYPE_BOOL, TYPE_UINT8, TYPE_UINT16, TYPE_UINT32, TYPE_UINT64, TYPE_INT8, TYPE_INT16, TYPE_INT32, TYPE_INT64, TYPE_FP16, TYPE_FP32, TYPE_FP64, TYPE_STRING, TYPE_BF16"),
    ('{"parameters": {"a": "b"}}', "o:1:22: parameters[\"a\"]: the value for \"a\" in 'parameters' is a ModelParameter, got \"b\"; write { \"string_value\": \"b\" }"),
    ('{"parameters": {"a": {"string_value": 1}}}', "o:1:39: parameters[\"a\"].string_value: 'string_value' takes text in quotes, got 1; write \"1\""),
    ('{"version_policy": {"all": {}, "latest": {}}}', "o:1:32: version_policy.latest: 'latest' and 'all' exclude one another in ModelVersionPolicy; 'all' stands on line 1; keep one of them"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), FIELDS, ids=[str(number) for number in range(len(FIELDS))])
def test_what_is_no_configuration(text: str, expected: str) -> None:
    assert [str(finding) for finding in refusals(text)] == [expected]


def test_the_line_of_a_mistake_is_shown_around_its_column() -> None:
    text = '{"name": "' + "x" * 500 + '", "max_batch_size": "y", "parameters": {"' + "z" * 500 + '": {}}}'
    (finding,) = refusals(text)
    line, caret = finding.details.split("\n")
    assert len(line) < 200
    assert line[caret.index("^") :].startswith('"y"')


@pytest.mark.parametrize("text", [r'{"\ud800": 1}', r'{"input": [{"data_type": "\udfff"}]}', r'{"name": "\ud800"}'])
def test_half_a_character_is_no_text(text: str) -> None:
    (finding,) = refusals(text)
    assert "one half of a surrogate pair" in finding.message


def test_many_mistakes_are_not_all_listed() -> None:
    found = refusals(json.dumps({f"field_{number}": 1 for number in range(1000)}))
    assert 10 < len(found) < 100
    assert "more mistakes" in found[-1].message


def test_endless_lists_are_not_read_to_their_end() -> None:
    (finding,) = refusals('{"input": [{"dims": [' + "1," * 150_000 + "1]}]}")
    assert "no configuration has more than 100000 values" in finding.message


@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
))  # fmt: skip
def test_all_json_is_read_as_the_standard_library_reads_it(value: object) -> None:
    for text in (json.dumps(value), json.dumps(value, indent=1, ensure_ascii=False)):
        assert _plain(parse_json(text)) == json.loads(text)


def _plain(node: JsonNode) -> object:
    if node.kind is JsonKind.OBJECT:
        return {member.name: _plain(member.value) for member in node.members}
    if node.kind is JsonKind.ARRAY:
        return [_plain(item) for item in node.items]
    return node.text if node.kind is JsonKind.STRING else json.loads(node.text)


@given(st.text(alphabet='{}[]:,"\\ \n0123456789.-+eEtrufalsnd\'#/"', max_size=40))
def test_what_the_standard_library_refuses_is_refused(text: str) -> None:
    assume(not re.search(r"[{,]\s*[a-zA-Z]\w*\s*:", text))  # a key without quotes
    try:
        json.loads(text)
    except json.JSONDecodeError:
        with pytest.raises(SyntaxStop):
            parse_json(text)


def test_keys_may_stand_without_quotes() -> None:
    assert _plain(parse_json('{a: {"b": 1, _c2 : [{\nd: 2}]}}')) == {"a": {"b": 1, "_c2": [{"d": 2}]}}


def test_remedies_are_written_in_json() -> None:
    assert str(override_finding('{"name": "other"}', "name")).endswith(
        'write "name": "m", remove the line, or rename the folder'
    )
    assert str(override_finding('{"input": [{"name": "a", "dims": [1]}]}', "input[0]")).endswith(
        'write "data_type": "TYPE_FP32", or what the model has'
    )
    (finding,) = refusals('{"max_batch_size": {}}')
    assert finding.remedy == 'write "max_batch_size": …'


def override_finding(text: str, path: str) -> Finding:
    document = config_from_json(text)
    found = validate(document.config, folder="m", places=document.places)
    return next(each for each in found if each.path.startswith(path))


@pytest.mark.parametrize("digits", [300, 5_000, 100_000])
def test_long_numbers_are_cut(digits: int) -> None:
    (finding,) = refusals('{"max_batch_size": ' + "9" * digits + "}")
    assert "takes a whole number from -2147483648 to 2147483647, got 999" in finding.message
    assert len(str(finding)) < 400


def test_a_long_fraction_is_a_number() -> None:
    text = '{"dynamic_batching": {}, "model_metrics": {"metric_control": [{"histogram_options": {"buckets": [0.%s]}}]}}'
    config = config_from_json(text % ("3" * 300)).config
    assert config.model_metrics.metric_control[0].histogram_options.buckets[0] == pytest.approx(1 / 3)
