"""What a writer of config.pbtxt may get wrong: where it is said to be, what is said, and what to do."""

# One case a line reads best as a table.
# ruff: noqa: E501

import pytest

from charonia.config.findings import ConfigError
from charonia.config.pbtxt import parse_pbtxt


def mistakes(text: str | bytes) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        parse_pbtxt(text, "c")
    return [str(finding) for finding in raised.value.findings]


DATATYPES = (
    "TYPE_BOOL, TYPE_UINT8, TYPE_UINT16, TYPE_UINT32, TYPE_UINT64, TYPE_INT8, TYPE_INT16, TYPE_INT32, TYPE_INT64, "
    "TYPE_FP16, TYPE_FP32, TYPE_FP64, TYPE_STRING, TYPE_BF16"
)

ONE = {
    # Names
    "max_batch_sise: 8": "c:1:1: ModelConfig has no field 'max_batch_sise'; did you mean 'max_batch_size'?",
    'inputs { name: "a" }': "c:1:1: ModelConfig has no field 'inputs'; did you mean 'input'?",
    'input {\n  name: "a"\n  datatype: TYPE_FP32 }': "c:3:3: ModelInput has no field 'datatype'; did you mean 'data_type'?",
    "input { shape: [1] }": "c:1:9: ModelInput has no field 'shape'; did you mean 'dims'?",
    "dynamic_batching { max_queue_delay_us: 5 }": "c:1:20: ModelDynamicBatching has no field 'max_queue_delay_us'; "
    "did you mean 'max_queue_delay_microseconds'?",
    "preferred_batch_size: [ 4 ]": "c:1:1: ModelConfig has no field 'preferred_batch_size'; "
    "'preferred_batch_size' belongs to 'dynamic_batching'",
    'output { name: "y" instance_group { } }': "c:1:20: ModelOutput has no field 'instance_group'; "
    "'instance_group' belongs to the top level, so a '}' is probably missing before it",
    "dynamic_batching { max_queue_size: 4 }": "c:1:20: ModelDynamicBatching has no field 'max_queue_size'; "
    "'max_queue_size' belongs to 'dynamic_batching.default_queue_policy'",
    "version_policy { newest { } }": "c:1:18: ModelVersionPolicy has no field 'newest'; its fields are latest, all, specific",
    # Values
    "input { data_type: FP32 }": f"c:1:20: 'data_type' of ModelInput has no value FP32; did you mean TYPE_FP32? Allowed are {DATATYPES}",
    "input { data_type: TYPE_FLOAT32 }": f"c:1:20: 'data_type' of ModelInput has no value TYPE_FLOAT32; did you mean TYPE_FP32? Allowed are {DATATYPES}",
    "input { data_type: TYPE_BYTES }": f"c:1:20: 'data_type' of ModelInput has no value TYPE_BYTES; did you mean TYPE_STRING? Allowed are {DATATYPES}",
    'input { data_type: "TYPE_FP32" }': "c:1:20: 'data_type' takes a name without quotes, got \"TYPE_FP32\"; write TYPE_FP32",
    "instance_group { kind: CPU }": "c:1:24: 'kind' of ModelInstanceGroup has no value CPU; did you mean KIND_CPU? "
    "Allowed are KIND_AUTO, KIND_GPU, KIND_CPU, KIND_MODEL",
    "instance_group { kind: 9 }": "c:1:24: 'kind' of ModelInstanceGroup has no value 9; "
    "allowed are KIND_AUTO, KIND_GPU, KIND_CPU, KIND_MODEL",
    "max_batch_size: 2147483648": "c:1:17: 'max_batch_size' takes a whole number from -2147483648 to 2147483647, got 2147483648",
    "max_batch_size: 8.0": "c:1:17: 'max_batch_size' takes a whole number, got 8.0",
    "max_batch_size: 1_000": "c:1:17: 'max_batch_size' takes a whole number, got 1_000",
    "max_batch_size: 08": "c:1:17: 'max_batch_size' takes a whole number, got 08",
    "max_batch_size: eight": "c:1:17: 'max_batch_size' takes a whole number, got eight",
    'max_batch_size: "8"': "c:1:17: 'max_batch_size' takes a whole number, got \"8\"; remove the quotes",
    "input { dims: [ None, 4 ] }": "c:1:17: 'dims' takes a whole number, got None; write -1 for a size that varies",
    "max_batch_size: [ 8 ]": "c:1:1: 'max_batch_size' of ModelConfig takes one value, not a list; write the value without brackets",
    "max_batch_size { }": "c:1:16: 'max_batch_size' of ModelConfig takes a plain value, not '{ … }'; write max_batch_size: …",
    "name: m": "c:1:7: 'name' takes text in quotes, got m; write \"m\"",
    "input { optional: yes }": "c:1:19: 'optional' takes true or false, got yes",
    "version_policy: 'latest'": "c:1:17: 'version_policy' of ModelConfig takes a block, got 'latest'; "
    "write version_policy { … }, whose fields are latest, all, specific",
    "version_policy { latest: 1 }": "c:1:26: 'latest' of ModelVersionPolicy takes a block, got 1; "
    "write latest { … }, whose fields are num_versions",
    # Twice
    'name: "a"\nname: "b"': "c:2:1: 'name' is set twice in ModelConfig, first on line 1; keep one of them",
    "dynamic_batching { }\nsequence_batching { }": "c:2:1: 'sequence_batching' and 'dynamic_batching' exclude one another in "
    "ModelConfig; 'dynamic_batching' stands on line 1; keep one of them",
    'metric_tags { key: "a" value: "1" }\nmetric_tags { key: "a" value: "2" }': 'c:2:13: the key "a" stands twice in '
    "'metric_tags', first on line 1; keep one of them",
    # Maps
    'parameters { key: "a" value: "b" }': 'c:1:30: the value for "a" in \'parameters\' is a ModelParameter, got "b"; '
    'write value: { string_value: "b" }',
    'parameters { key: "a" value { string_value: 1 } }': "c:1:45: 'string_value' takes text in quotes, got 1; write \"1\"",
    'metric_tags { key: "a" value { } }': "c:1:30: the value for \"a\" in 'metric_tags' is plain text, not '{ … }'; write value: \"…\"",
    'parameters: "a"': "c:1:13: 'parameters' takes entries with a key and a value, got \"a\"; "
    'write parameters { key: "…" value: … }',
    'parameters { key: "a" string_value: "b" }': "c:1:23: an entry of 'parameters' has a 'key' and a 'value', not "
    "'string_value'; put it into the value",
    # Grammar
    'name = "m"': "c:1:6: '=' after 'name'; write ':' instead",
    "max_batch_size 8": "c:1:1: 'max_batch_size' has no ':' before its value; write 'max_batch_size: 8'",
    'name:\nbackend: "x"': "c:1:1: 'name' has no value; write one after the ':', or remove the field",
    "input { dims: [ 1 2 ] }": "c:1:19: ',' is missing before this value of 'dims'; separate by commas",
    "input { dims: [ 1, 2, ] }": "c:1:21: ',' after the last value of 'dims'; remove it",
    'input [ { name: "a" }\n { name: "b" } ]': "c:2:2: ',' is missing before this value of 'input'; separate by commas",
    'input {\n name: "a"\n': "c:1:7: '{' of 'input' is never closed; add the missing '}'",
    "input [\n { dims: [ 1 }\n]": "c:2:10: '[' of 'dims' is never closed; add the missing ']'",
    "input [\n { dims: [ 1 ]\n]": "c:3:1: ']' comes before '{' of 'input' (line 2) is closed; add the missing '}'",
    "input { } }": "c:1:11: '}' closes nothing; remove it, or add what opens it",
    "{ }": "c:1:1: '{' stands where a field name was expected; this is protobuf text, not JSON: remove the outer braces",
    'ensemble_scheduling { step { input_map { "IN": "x" } } }': 'c:1:42: the field name "IN" stands in quotes; '
    'write key: "IN" value: …',
    '"name": "m"': 'c:1:1: the field name "name" stands in quotes; write name without quotes',
    "max_batch_size: +1": "c:1:17: '+' before the value of 'max_batch_size'; write the number without a plus sign",
    "[ext.name]: 1": "c:1:1: extensions and Any fields ('[name] …') are not part of a model configuration",
    # Characters
    'name: "m': 'c:1:7: the string that starts here has no closing " on its line',
    'name: "a\nb"': 'c:1:7: the string that starts here has no closing " on its line',
    "name: “m”": "c:1:7: '“' is a typographic quote; use the plain quote \"",
    "// no": "c:1:1: '//' does not start a comment; start comments with '#'",
    "max_batch_size: 8 %": "c:1:19: the character '%' does not belong here",
    "name: \x00": "c:1:7: the character 'U+0000' does not belong here",
    r'name: "a\qb"': r"c:1:9: '\q' is no escape of the text format; write '\\' for a backslash",
    r'name: "C:\models"': r"c:1:10: '\m' is no escape of the text format; write '\\' for a backslash",
}


@pytest.mark.parametrize(("text", "expected"), ONE.items())
def test_one_mistake(text: str, expected: str) -> None:
    assert mistakes(text) == [expected]


def test_all_mistakes_are_found_at_once_and_in_order() -> None:
    text = 'nam: "m"\nmax_batch_size: x\ninput [ { dims: [ 1, a ] } ]\noutput { foo: 1 }\n}'
    assert [each.split(" ")[0] for each in mistakes(text)] == ["c:1:1:", "c:2:17:", "c:3:22:", "c:4:10:", "c:5:1:"]


def test_what_stands_before_a_mistake_of_grammar_is_still_checked() -> None:
    assert mistakes("max_batch_sise: 1\ninput { name: ") == [
        "c:1:1: ModelConfig has no field 'max_batch_sise'; did you mean 'max_batch_size'?",
        "c:2:9: 'name' has no value; write one after the ':', or remove the field",
    ]


def test_a_forgotten_brace_is_told_from_the_fields_that_fell_into_the_block() -> None:
    text = 'input [\n  {\n    name: "a"\n  }\n]\ndynamic_batching {\n\ninstance_group [ { count: 2 } ]\n'
    assert mistakes(text) == [
        "c:6:18: '{' of 'dynamic_batching' is never closed; add the missing '}'",
        "c:8:1: ModelDynamicBatching has no field 'instance_group'; "
        "'instance_group' belongs to the top level, so a '}' is probably missing before it",
    ]


def test_a_configuration_in_json_is_told_what_differs() -> None:
    found = mistakes('{\n  "name": "m",\n  "max_batch_size": 8\n}')
    assert found == [
        "c:1:1: '{' stands where a field name was expected; this is protobuf text, not JSON: remove the outer braces"
    ]
    assert mistakes('name: "m" { }') == [
        "c:1:11: '{' stands where a field name was expected; put the field's name before it"
    ]


def test_the_line_is_shown_with_a_caret_under_the_column() -> None:
    with pytest.raises(ConfigError) as raised:
        parse_pbtxt('name: "m"\n\tmax_batch_size: eight', "m/config.pbtxt")
    (finding,) = raised.value.findings
    assert f"{finding}\n{finding.details}" == (
        "m/config.pbtxt:2:18: 'max_batch_size' takes a whole number, got eight\n"
        "    \tmax_batch_size: eight\n"
        "    \t                ^"
    )


def test_text_that_is_no_utf8_after_its_escapes() -> None:
    (found,) = mistakes(r'name: "\377"')
    assert found == "c:1:7: byte 0xff of 'name' is not UTF-8 text; write it in UTF-8"


def test_bytes_that_are_no_text_have_a_place() -> None:
    assert mistakes(b'name: "m"\nbackend: "\xff"') == [
        "c:2:10: byte 0xff of 'backend' is not UTF-8 text; write it in UTF-8"
    ]
    assert mistakes(b"\xe9: 1") == ["c:1:1: byte 0xe9 is not UTF-8 text; save the file as UTF-8 text"]


def test_endless_nesting_is_refused() -> None:
    assert mistakes("input {" * 10_000)[-1].startswith("c:1:")


YAML = "c:{}:1: this looks like YAML; config.pbtxt is protobuf text; " + (
    'write name: "x" for text and input [ {{ name: "x" }} ] for a list'
)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("max_batch_size: 8\ninput:\n  - name: x\n    dims: [4]\n", 3),
        ("---\nname: simple\n", 1),
        ("max_batch_size: 8\ndynamic_batching:\n  max_queue_delay_microseconds: 5\n  preferred: x\n", 2),
        ("max_batch_size: 8\nname: simple\nbackend: python\n", 2),
    ],
)
def test_yaml_is_named_first(text: str, line: int) -> None:
    found = mistakes(text)
    assert found[0] == YAML.format(line).replace("{{", "{").replace("}}", "}")
    assert not [each for each in found[1:] if "YAML" in each]


@pytest.mark.parametrize(
    "text", ["name: simple", "name: simple\nbackend: python\ninput { }", "version_policy:\n{ no: 1 }"]
)
def test_forgotten_quotes_are_no_yaml(text: str) -> None:
    assert not [each for each in mistakes(text) if "YAML" in each]


def test_a_list_in_parentheses() -> None:
    assert mistakes("input { dims: ( 4 ) }") == [
        "c:1:15: the character '(' does not belong here; lists are written [ 4 ]"
    ]


@pytest.mark.parametrize(
    "text", ["max_batch_size: {}", "name: {}", "name: [ {} ]", "input {{ data_type: {} }}", "b{}: 3"]
)
@pytest.mark.parametrize("word", ["9" * 900, "a" * 900])
def test_long_words_are_cut(text: str, word: str) -> None:
    (found,) = mistakes(text.format(word))
    assert word[:250] not in found
