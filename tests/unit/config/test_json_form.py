"""The JSON of `GET …/config`, as a real Triton printed it, and config overrides."""

# One case a line reads best as a table.
# ruff: noqa: E501

import json
from pathlib import Path

import pytest
from google.protobuf import json_format
from tritonclient.grpc import model_config_pb2

from charonia.config.defaults import fill_backend, normalize
from charonia.config.instance_groups import fill_instance_groups
from charonia.config.json_form import config_from_json, config_to_json, config_to_json_text
from charonia.config.layout import Layout
from charonia.config.pbtxt import parse_pbtxt
from charonia.config.schema import ModelConfig


def in_force(text: str, name: str, file: str = "model.py") -> ModelConfig:
    config = parse_pbtxt(text, "c").config
    fill_backend(config, name, Layout(Path(name), "1", (file,)))
    normalize(config)
    fill_instance_groups(config)
    return config


INPUT_TAIL = '"is_shape_tensor":false,"allow_ragged_batch":false,"optional":false,"is_non_linear_format_io":false'
OUTPUT_TAIL = '"is_shape_tensor":false,"is_non_linear_format_io":false'
OPTIMIZATION = (
    '"optimization":{"priority":"PRIORITY_DEFAULT","input_pinned_memory":{"enable":true},"output_pinned_memory":{"enable":true},'
    '"gather_kernel_buffer_threshold":0,"eager_batching":false}'
)


def test_a_plain_model_prints_as_triton_prints_it() -> None:
    text = 'backend: "python" max_batch_size: 4 input { name: "INPUT0" data_type: TYPE_FP32 dims: -1 } output { name: "OUTPUT0" data_type: TYPE_FP32 dims: -1 }'
    assert config_to_json_text(in_force(text, "id")) == (
        '{"name":"id","platform":"","backend":"python","runtime":"","version_policy":{"latest":{"num_versions":1}},"max_batch_size":4,'
        '"input":[{"name":"INPUT0","data_type":"TYPE_FP32","format":"FORMAT_NONE","dims":[-1],' + INPUT_TAIL + "}],"
        '"output":[{"name":"OUTPUT0","data_type":"TYPE_FP32","dims":[-1],"label_filename":"",' + OUTPUT_TAIL + "}],"
        '"batch_input":[],"batch_output":[],' + OPTIMIZATION + ","
        '"instance_group":[{"name":"id","kind":"KIND_CPU","count":1,"gpus":[],"secondary_devices":[],"profile":[],"passive":false,"host_policy":""}],'
        '"default_model_filename":"model.py","cc_model_filenames":{},"metric_tags":{},"parameters":{},"model_warmup":[]}'
    )


def test_members_of_oneofs_and_messages_stand_only_when_set() -> None:
    text = 'version_policy: { all { } } model_warmup { name: "w" batch_size: 1 inputs { key: "x" value { dims: 3 random_data: true } } }'
    shown = config_to_json(in_force(text, "m"))
    assert shown["version_policy"] == {"all": {}}
    assert shown["model_warmup"] == [
        {
            "name": "w",
            "batch_size": 1,
            "inputs": {"x": {"data_type": "TYPE_INVALID", "dims": [3], "random_data": True}},
            "count": 0,
        }
    ]
    absent = ("dynamic_batching", "sequence_batching", "ensemble_scheduling", "model_operations", "response_cache")
    assert not set(absent) & set(shown)


def test_a_sequence_model() -> None:
    text = (
        'max_batch_size: 2 sequence_batching { max_sequence_idle_microseconds: 5000000 control_input { name: "START" '
        "control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } } }"
    )
    assert config_to_json(in_force(text, "seq"))["sequence_batching"] == {
        "max_sequence_idle_microseconds": 5000000,
        "control_input": [
            {
                "name": "START",
                "control": [
                    {
                        "kind": "CONTROL_SEQUENCE_START",
                        "int32_false_true": [0, 1],
                        "fp32_false_true": [],
                        "bool_false_true": [],
                        "data_type": "TYPE_INVALID",
                    }
                ],
            }
        ],
        "state": [],
        "iterative_sequence": False,
    }


def test_64_bit_fields_are_numbers_but_for_three_that_triton_leaves_as_text() -> None:
    text = """
      dynamic_batching { max_queue_delay_microseconds: 18446744073709551615 priority_levels: 2 default_priority_level: 1
        default_queue_policy { default_timeout_microseconds: 7 } priority_queue_policy { key: 2 value { default_timeout_microseconds: 8 } } }
      optimization { cuda { graph_spec { input { key: "x" value { dim: 4 } } } } }
      instance_group { secondary_devices { device_id: 5 } }
    """
    shown = config_to_json(parse_pbtxt(text, "c").config)
    policy = {"timeout_action": "REJECT", "allow_timeout_override": False, "max_queue_size": 0}
    assert shown["dynamic_batching"] == {
        "preferred_batch_size": [],
        "max_queue_delay_microseconds": 18446744073709551615,
        "preserve_ordering": False,
        "priority_levels": 2,
        "default_priority_level": 1,
        "default_queue_policy": {**policy, "default_timeout_microseconds": 7},
        "priority_queue_policy": {"2": {**policy, "default_timeout_microseconds": 8}},
    }
    text_form = json.dumps(shown)
    assert '{"dim": ["4"]}' in text_form
    assert '"device_id": "5"' in text_form


def test_initial_states_keep_their_dims_as_text() -> None:
    text = 'sequence_batching { state { dims: 2 initial_state { name: "z" dims: 3 zero_data: true } } }'
    (state,) = config_to_json(parse_pbtxt(text, "c").config)["sequence_batching"]["state"]  # type: ignore[index,call-overload]
    assert state["dims"] == [2]
    assert state["initial_state"] == [{"data_type": "TYPE_INVALID", "dims": ["3"], "zero_data": True, "name": "z"}]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("0.1", 0.1),
        ("1", 1),
        ("0.5", 0.5),
        ("1e-8", 1e-08),
        ("3.4028235e38", 3.4028235e38),
        ("-0.25", -0.25),
        ("nan", "NaN"),
        ("-inf", "-Infinity"),
    ],
)
def test_single_floats_have_the_shortest_digits(written: str, expected: float | str) -> None:
    config = parse_pbtxt(f"sequence_batching {{ direct {{ minimum_slot_utilization: {written} }} }}", "c").config
    shown = config_to_json(config)["sequence_batching"]
    assert shown["direct"]["minimum_slot_utilization"] == expected  # type: ignore[index,call-overload]


def test_text_beyond_ascii_is_not_escaped() -> None:
    assert '"metric_tags":{"é":"模型"}' in config_to_json_text(ModelConfig(metric_tags={"é": "模型"}))


EVERYTHING = """
  name: "m" platform: "p" backend: "b" runtime: "r" version_policy { specific { versions: [ 1, 3 ] } } max_batch_size: 8
  input { name: "a" data_type: TYPE_STRING dims: [ 1 ] reshape { shape: [ ] } optional: true }
  output { name: "o" data_type: TYPE_FP16 dims: [ -1, 2 ] label_filename: "l.txt" }
  batch_input { kind: BATCH_ITEM_SHAPE target_name: "t" data_type: TYPE_FP32 source_input: "a" }
  batch_output { target_name: "o" source_input: "a" }
  optimization { graph { level: -1 } cuda { graphs: true graph_spec { batch_size: 1 input { key: "a" value { dim: [ 1 ] } }
    graph_lower_bound { input { key: "a" value { dim: 2 } } } } }
    execution_accelerators { gpu_execution_accelerator { name: "tensorrt" parameters { key: "precision_mode" value: "FP16" } } } }
  sequence_batching { oldest { max_candidate_sequences: 4 } state { input_name: "i" initial_state { data_file: "f" dims: 5 } }
    control_input { name: "c" control { fp32_false_true: [ 0, 1.5 ] } } iterative_sequence: true }
  instance_group { count: 2 kind: KIND_GPU gpus: [ 0, 1 ] rate_limiter { priority: 2 resources { name: "R" global: true count: 3 } }
    secondary_devices { device_id: 7 } profile: "0" host_policy: "h" }
  cc_model_filenames { key: "7.5" value: "x.plan" } metric_tags { key: "a" value: "b" }
  parameters { key: "k" value { string_value: "v" } }
  model_warmup { name: "w" batch_size: 1 count: 2 inputs { key: "a" value { data_type: TYPE_INT8 dims: [ 4 ] input_data_file: "d" } } }
  model_operations { op_library_filename: "lib.so" } model_transaction_policy { decoupled: true }
  model_repository_agents { agents { name: "g" parameters { key: "x" value: "y" } } } response_cache { enable: true }
  model_metrics { metric_control { metric_identifier { family: "f" } histogram_options { buckets: [ 0.1, 1 ] } } }
"""


def test_every_field_comes_back_from_its_own_json() -> None:
    config = parse_pbtxt(EVERYTHING, "c").config
    assert config_from_json(config_to_json_text(config)).config == config


def test_the_values_are_those_of_protobufs_own_json() -> None:
    """Up to the 64-bit fields, which protobuf prints as text."""
    config = parse_pbtxt(EVERYTHING, "c").config
    theirs = model_config_pb2.ModelConfig.FromString(config.SerializeToString())
    expected = json_format.MessageToDict(
        theirs, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    assert _as_text(config_to_json(config)) == _as_text(expected)


def _as_text(value: object) -> object:
    if isinstance(value, dict):
        return {key: _as_text(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_as_text(inner) for inner in value]
    if isinstance(value, bool):
        return value
    return str(float(str(value))) if str(value).lstrip("-").replace(".", "", 1).isdigit() else value


def test_an_override_takes_camel_case_text_numbers_and_null() -> None:
    text = (
        '{"name": "m", "maxBatchSize": 8, "platform": null, "input": [{"name": "a", "dataType": "type_fp32", "dims": ["-1", 2]}],'
        '"versionPolicy": {"latest": {"numVersions": 2}}, "parameters": {"EXECUTION_ENV_PATH": {"string_value": "/x"}},'
        '"dynamic_batching": {"priority_queue_policy": {"1": {"timeout_action": 1}}}}'
    )
    expected = """name: "m" max_batch_size: 8 input { name: "a" data_type: TYPE_FP32 dims: [ -1, 2 ] }
      version_policy { latest { num_versions: 2 } } parameters { key: "EXECUTION_ENV_PATH" value { string_value: "/x" } }
      dynamic_batching { priority_queue_policy { key: 1 value { timeout_action: DELAY } } }"""
    document = config_from_json(text)
    assert document.config == parse_pbtxt(expected, "c").config
    assert "max_batch_size" in document.places
    assert "platform" not in document.places
