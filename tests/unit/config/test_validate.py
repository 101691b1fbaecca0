"""Every rule for configurations, broken one at a time: where, what, and what to write; and all at once."""

# One case a line reads best as a table.
# ruff: noqa: E501

import pytest

from charonia.config.defaults import normalize
from charonia.config.findings import Severity
from charonia.config.pbtxt import parse_pbtxt
from charonia.config.validate import validate

IO = 'input { name: "a" data_type: TYPE_FP32 dims: [ 4 ] } output { name: "o" data_type: TYPE_FP32 dims: [ 4 ] }'


def findings(text: str, *, is_complete: bool = True, folder: str = "m") -> list[str]:
    document = parse_pbtxt(text, "c")
    if not document.config.name:
        document.config.name = "m"
    if not document.config.backend and document.config.platform != "ensemble":
        document.config.backend = "custom"
    if not document.config.HasField("ensemble_scheduling"):
        normalize(document.config)
    return [
        str(each) for each in validate(document.config, folder=folder, places=document.places, is_complete=is_complete)
    ]


def test_a_right_configuration_has_no_findings() -> None:
    text = f'name: "m"\nmax_batch_size: 8\n{IO} dynamic_batching {{ preferred_batch_size: [ 4, 8 ] }} instance_group {{ count: 2 kind: KIND_CPU }}'
    assert findings(text) == []


BROKEN = [
    # The model
    ('name: "other"', "c:1:1: name is \"other\", but the model's folder is 'm'; the two must be equal; write name: \"m\", remove the line, or rename the folder"),
    ("\nmax_batch_size: -1", "c:2:1: max_batch_size is -1, expected 0 (no batching) or more; write max_batch_size: 0, or remove the line"),
    ('platform: "pytorch_libtorch" backend: "onnxruntime"', 'c:1:1: platform "pytorch_libtorch" is not one of backend "onnxruntime"; set platform to "onnxruntime_onnx", or remove one of the two lines'),
    ('platform: "keras"\nbackend: "tensorflow"', 'c:1:1: platform "keras" is not one of backend "tensorflow"; set platform to "tensorflow_savedmodel" or "tensorflow_graphdef", or remove one of the two lines; known platforms are tensorflow_savedmodel, tensorflow_graphdef, tensorrt_plan, onnxruntime_onnx, pytorch_libtorch, torch_aoti, ensemble'),
    ('backend: "tensorflow"', 'c: platform: backend "tensorflow" needs a platform; set platform to "tensorflow_savedmodel" or "tensorflow_graphdef"'),
    ("version_policy { specific { } }", "c:1:18: version_policy asks for specific versions but lists none; write versions: [ 1 ]"),
    ("version_policy { specific { versions: [ 1, -2 ] } }", "c:1:44: there can be no version -2; remove it: versions count from 1"),
    ("response_cache { enable: true } model_transaction_policy { decoupled: true }", "c:1:1: the response cache does not currently support decoupled models; remove response_cache { enable: true }"),
    ("response_cache { enable: true } sequence_batching { }", "c:1:1: the response cache does not currently support models with sequence_batching; remove response_cache { enable: true }"),
    ('model_metrics { metric_control { histogram_options { buckets: 1 } } }', 'c:1:17: a metric_control names no metric; write metric_identifier { family: "…" }'),
    ('model_metrics { metric_control { metric_identifier { family: "nv_inference_first_response_histogram_ms" } } }', "c:1:17: a metric_control has no buckets; write histogram_options { buckets: [ 0.1, 1 ] }"),
    # Inputs and outputs
    ("input { data_type: TYPE_FP32 dims: 1 }", "c:1:1: input number 1 has no name; write name: \"…\""),
    ('input { name: "a" dims: 1 }', "c:1:1: input 'a' has no data_type; write data_type: TYPE_FP32, or what the model has"),
    ('output { name: "a" data_type: TYPE_FP32 }', "c:1:1: output 'a' has no dims; write dims: [ … ], -1 for sizes that vary"),
    ('input { name: "a" data_type: TYPE_FP32 dims: [ 3,\n 0 ] }', "c:2:2: dims of input 'a' are [3, 0], and 0 is no size: expected 1 or more, or -1; write -1 for a size that varies"),
    ('output { name: "a" data_type: TYPE_FP32 dims: -2 }', "c:1:47: dims of output 'a' are [-2], and -2 is no size: expected 1 or more, or -1; write -1 for a size that varies"),
    (f'{IO}\ninput {{ name: "a" data_type: TYPE_FP32 dims: 1 }}', "c:2:9: two inputs are named 'a' (line 1); give each its own name"),
    ('input { name: "a" data_type: TYPE_FP32 dims: [ 2, 3 ] reshape { shape: [ 7 ] } }', "c:1:55: dims of input 'a' are [2, 3] and their reshape is [7]: expected the same number of elements, 6 elements; make the two agree"),
    ('input { name: "a" data_type: TYPE_FP32 dims: [ 2 ] reshape { shape: [ -1 ] } }', "c:1:52: dims of input 'a' are [2] and their reshape is [-1]: expected the same number of elements, a fixed 2 elements; make the two agree"),
    ('input { name: "a" data_type: TYPE_FP32 dims: [ -1, 2 ] reshape { shape: [ -1, -1 ] } }', "c:1:56: dims of input 'a' are [-1, 2] and their reshape is [-1, -1]: expected as many sizes that vary (-1) on both sides, got 1 and 2; make the two agree"),
    ('input { name: "a" data_type: TYPE_FP32 dims: [ 2, -1, 6 ] reshape { shape: [ 2, -1, 5 ] } }', "c:1:59: dims of input 'a' are [2, -1, 6] and their reshape is [2, -1, 5]: between the sizes that vary the element counts are [2, 6] and [2, 5]; make the two agree"),
    ('input { name: "a" data_type: TYPE_FP32 dims: 1 reshape { } }', "c:1:48: reshape of input 'a' is empty, a scalar, which a model that does not batch (max_batch_size: 0) can't have; write shape: [ 1 ], or remove the reshape"),
    ('input { name: "a" data_type: TYPE_FP32 dims: [ 2, 2 ] format: FORMAT_NHWC }', "c:1:55: input 'a' has format FORMAT_NHWC and dims [2, 2], expected 3 of them; remove the format, or write height, width and channels"),
    ('output { name: "a" data_type: TYPE_FP32 dims: 1 is_shape_tensor: true }', "c:1:49: output 'a' is a shape tensor, which only TensorRT models have; remove is_shape_tensor"),
    ('input { name: "a" data_type: TYPE_FP32 dims: 1 is_non_linear_format_io: true }', "c:1:48: input 'a' has a non-linear format, which only TensorRT models have; remove is_non_linear_format_io"),
    (f'{IO}\nbatch_input {{ data_type: TYPE_FP32 source_input: "b" }}', "c:2:36: source_input names the input 'b', and the model has a; write one of the names, or add 'b' to the configuration"),
    (f'{IO}\nbatch_input {{ data_type: TYPE_INT64 source_input: "a" }}', "c:2:15: a batch_input has data_type TYPE_INT32 or TYPE_FP32, got TYPE_INT64; write the one that the model's input has"),
    (f"{IO}\nbatch_input {{ data_type: TYPE_FP32 }}", "c:2:1: BATCH_ELEMENT_COUNT takes one source_input, got 0; write source_input: \"…\", the input that it is made from"),
    (f'{IO}\nbatch_output {{ target_name: "x" source_input: "a" }}', "c:2:16: batch_output names the output 'x', and the model has o; write one of the names, or add 'x' to the configuration"),
    (f'{IO}\nbatch_output {{ target_name: [ "o", "o" ] source_input: "a" }}', "c:2:16: batch_output names the output 'o' twice; once is enough"),
    # Dynamic batching
    ("max_batch_size: 4\ndynamic_batching { preferred_batch_size: [ 2, 8 ] }", "c:2:47: preferred_batch_size 8 of dynamic_batching is above max_batch_size 4; lower it, or raise max_batch_size (line 1) to 8"),
    ("max_batch_size: 4 dynamic_batching { preferred_batch_size: 0 }", "c:1:60: preferred_batch_size 0 of dynamic_batching is not positive; write sizes of 1 or more"),
    ("dynamic_batching { preferred_batch_size: 4 }", "c:1:42: preferred_batch_size 4 of dynamic_batching is above max_batch_size 0; lower it, or raise max_batch_size to 4"),
    ("dynamic_batching { }", "c:1:1: dynamic_batching joins no requests: max_batch_size is 0, so the model takes no batches; set max_batch_size, or remove dynamic_batching"),
    ("max_batch_size: 1 dynamic_batching { priority_levels: 3 }", "c:1:19: default_priority_level is 0, expected 1 to 3 (priority_levels); write default_priority_level: 3"),
    ("max_batch_size: 1 dynamic_batching { priority_levels: 2 default_priority_level: 3 }", "c:1:57: default_priority_level is 3, expected 1 to 2 (priority_levels); write default_priority_level: 2"),
    ("max_batch_size: 1 dynamic_batching { priority_levels: 2 default_priority_level: 1\npriority_queue_policy { key: 3 value { } } }", "c:2:1: priority_queue_policy has an entry for level 3, expected 1 to 2 (priority_levels); write key: 2 or less, or raise priority_levels"),
    ("max_batch_size: 1 dynamic_batching { preserve_ordering: true priority_levels: 2 default_priority_level: 1 }", "c:1:62: priority_levels is 2 and preserve_ordering is true (line 1): only one of them; remove one of the two"),
    ("max_batch_size: 1 dynamic_batching { preserve_ordering: true\ndefault_queue_policy { timeout_action: DELAY default_timeout_microseconds: 1 } }", "c:2:24: timeout_action DELAY would change the order that preserve_ordering (line 1) keeps; use REJECT, or remove preserve_ordering"),
    # Sequences
    ("max_batch_size: 2 sequence_batching { oldest { preferred_batch_size: 4 } }", "c:1:70: preferred_batch_size 4 of sequence_batching.oldest is above max_batch_size 2; lower it, or raise max_batch_size (line 1) to 4"),
    ("sequence_batching { direct { minimum_slot_utilization: 1.5 } }", "c:1:30: minimum_slot_utilization is 1.5, expected 0 to 1; write a share, such as 0.5"),
    ('sequence_batching { control_input { name: "s" control { kind: CONTROL_SEQUENCE_START } } }', "c:1:47: CONTROL_SEQUENCE_START of 's' takes one of int32_false_true, fp32_false_true, bool_false_true, got none; write, for example, int32_false_true: [ 0, 1 ]"),
    ('sequence_batching { control_input { name: "s" control { kind: CONTROL_SEQUENCE_END fp32_false_true: [ 0 ] } } }', "c:1:84: fp32_false_true of 's' has 1 values, expected 2: the one for false and the one for true; write fp32_false_true: [ 0, 1 ]"),
    ('sequence_batching { control_input { name: "s" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_FP32 } } }', "c:1:87: CONTROL_SEQUENCE_CORRID of 's' has data_type TYPE_FP32, expected one of TYPE_UINT64, TYPE_INT64, TYPE_UINT32, TYPE_INT32, TYPE_STRING; write data_type: TYPE_UINT64, or what the model has"),
    ('sequence_batching { control_input [ { name: "s" control { int32_false_true: [ 0, 1 ] } },\n{ name: "t" control { int32_false_true: [ 0, 1 ] } } ] }', "c:2:13: two tensors have the control CONTROL_SEQUENCE_START; keep one of them"),
    # Instance groups
    ('instance_group { name: "g" kind: KIND_CPU gpus: [ 0 ] }', "c:1:43: instance group g has kind KIND_CPU and lists gpus [0]; remove gpus, or write kind: KIND_GPU"),
    ('instance_group { name: "g" kind: KIND_GPU gpus: [ -1 ] }', "c:1:43: instance group g lists the GPU -1; write gpus: [ 0 ]: they count from 0"),
    ('instance_group { name: "g" profile: "0" }', "c:1:28: instance group g has a profile, which only TensorRT models have; remove it"),
    ('platform: "tensorrt_plan" backend: "tensorrt" instance_group { name: "g" profile: "x" }', "c:1:74: instance group g has profile ['x'], expected numbers in quotes; write profile: [ \"0\" ]"),
    # Ensembles
    ('platform: "ensemble"', 'c:1:1: platform is "ensemble" but there is no ensemble_scheduling; add the steps'),
    ('platform: "ensemble" ensemble_scheduling { }', "c:1:22: the ensemble has no step; add step { model_name: … }"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), BROKEN)
def test_one_broken_rule(text: str, expected: str) -> None:
    assert findings(text) == [expected]


def test_all_broken_rules_are_found_at_once() -> None:
    text = 'name: "x"\nmax_batch_size: 4\ninput { name: "a" dims: 0 }\ndynamic_batching { preferred_batch_size: 9 }\ninstance_group { kind: KIND_CPU gpus: 1 }'
    assert [each.split(" ")[0] for each in findings(text)] == ["c:1:1:", "c:3:1:", "c:3:25:", "c:4:42:", "c:5:33:"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        'input { name: "a" }',
        "dynamic_batching { preferred_batch_size: 4 }",
        "dynamic_batching { }",
        'input { name: "a" reshape { } }',
    ],
)
def test_what_the_model_file_may_still_tell_is_no_finding(text: str) -> None:
    assert findings(text, is_complete=False) == []


@pytest.mark.parametrize(
    "reshape",
    [
        "dims: [ 2, 4, -1, 6 ] reshape { shape: [ 8, -1, 1, 6 ] }",
        "dims: 1 reshape { shape: [ ] }",
        "dims: [ 2, 3 ] reshape { shape: 6 }",
        "dims: [ -1 ] reshape { shape: [ 1, -1 ] }",
    ],
)
def test_right_reshapes(reshape: str) -> None:
    assert findings(f'max_batch_size: 1 input {{ name: "a" data_type: TYPE_FP32 {reshape} }}') == []


def test_a_section_without_effect_is_a_warning() -> None:
    document = parse_pbtxt('name: "m" backend: "b" dynamic_batching { }', "c")
    (finding,) = validate(document.config, folder="m", places=document.places)
    assert finding.severity is Severity.WARNING


@pytest.mark.parametrize(
    ("section", "path"),
    [
        ('control_input { name: "IN" control { int32_false_true: [ 0, 1 ] } }', "control_input[0].name"),
        ('state { input_name: "IN" output_name: "NEXT" data_type: TYPE_FP32 dims: 1 }', "state[0].input_name"),
    ],
)
def test_what_the_server_gives_need_not_be_sent(section: str, path: str) -> None:
    ios = 'input { name: "IN" data_type: TYPE_FP32 dims: 1 } output { name: "OUT" data_type: TYPE_FP32 dims: 1 }'
    document = parse_pbtxt(f'name: "m" backend: "b" {ios} sequence_batching {{ {section} }}', "c")
    (finding,) = validate(document.config, folder="m", places=document.places)
    assert (finding.path, finding.is_error) == (f"sequence_batching.{path}", False)
    assert "'IN' is also an input: what a client sends for it is never used; remove the input 'IN'" in str(finding)


def ensemble(steps: str, more: str = "") -> list[str]:
    ios = 'input { name: "IN" data_type: TYPE_FP32 dims: 1 } output { name: "OUT" data_type: TYPE_FP32 dims: 1 }'
    return findings(f'platform: "ensemble" {ios} {more}\nensemble_scheduling {{\n{steps}\n}}')


def step(model: str, reads: str, writes: str) -> str:
    return f'step {{ model_name: "{model}" input_map {{ key: "i" value: "{reads}" }} output_map {{ key: "o" value: "{writes}" }} }}'


def test_a_right_ensemble() -> None:
    assert ensemble(f"{step('b', 'mid', 'OUT')}\n{step('a', 'IN', 'mid')}") == []


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (step("a", "IN", "other"), ["c:1:72: no step writes the ensemble's output 'OUT'; name it as a value in a step's output_map", "c:3:1: the ensemble tensor 'other', from step 1 ('a'), is not used by any step or output; remove it, or read it"]),
        (step("a", "what", "OUT"), ["c:1:22: the ensemble tensor 'IN', from an input of the ensemble, is not used by any step or output; remove it, or read it", "c:3:24: the ensemble tensor 'what' is read by step 1 ('a'), but neither an input nor written by a step; name it in an output_map, or as an input"]),
        (f"{step('a', 'IN', 'OUT')}\n{step('b', 'IN', 'OUT')}", ["c:4:59: the ensemble tensor 'OUT' is written twice: by step 1 ('a') (line 3) and step 2 ('b'); give one of them another name"]),
        (f"{step('a', 'y', 'x')}\n{step('b', 'x', 'y')}\n{step('c', 'IN', 'OUT')}", ["c:3:1: steps 1 ('a'), 2 ('b') wait for one another in a circle; let one of them read an input of the ensemble, or what an earlier step writes"]),
        ("step { }", ["c:3:1: step 1 has no model_name; add model_name", "c:3:1: step 1 has no input_map; add input_map", "c:3:1: step 1 has no output_map; add output_map", "c:1:72: no step writes the ensemble's output 'OUT'; name it as a value in a step's output_map", "c:1:22: the ensemble tensor 'IN', from an input of the ensemble, is not used by any step or output; remove it, or read it"]),
    ],
)  # fmt: skip
def test_a_wrong_ensemble(steps: str, expected: list[str]) -> None:
    assert ensemble(steps) == expected


def test_what_an_ensemble_may_not_have() -> None:
    more = 'backend: "python" instance_group { count: 1 } optimization { } model_warmup { }'
    assert [each.partition(": ")[2].partition(";")[0] for each in ensemble(step("a", "IN", "OUT"), more)] == [
        'an ensemble has no backend, got backend: "python"',
        "an ensemble has no instance_group",
        "an ensemble has no optimization",
        "an ensemble has no model_warmup",
    ]


def test_steps_need_the_ensemble_platform() -> None:
    text = 'platform: "onnxruntime_onnx" backend: "onnxruntime"\nensemble_scheduling { step { model_name: "a" input_map { key: "x" value: "y" } output_map { key: "o" value: "z" } } }'
    assert findings(text)[:1] == [
        'c:2:1: ensemble_scheduling needs platform "ensemble", got platform "onnxruntime_onnx"; write platform: "ensemble" and no backend'
    ]


def test_names_that_only_look_equal() -> None:
    one, other = "mod\u00e8le", "mode\u0300le"
    said = "the letters are the same and encoded differently"
    (found,) = findings(f'name: "{one}" {IO}', folder=other)
    assert f"{said}, U+00E8 in the name and U+0065 U+0300 in the folder's" in found
    (found,) = findings(f'name: "{other}" {IO}', folder=one)
    assert f"{said}, U+0065 U+0300 in the name and U+00E8 in the folder's" in found
    (found,) = findings(f'name: "m" {IO}', folder=one)
    assert said not in found
