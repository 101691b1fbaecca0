"""Every rule that Triton's core has for configurations, one row each: what breaks it, the field that is blamed, our words.

The names of the rows say where Triton checks: V ValidateModelConfig, S its sequence controls, E its ensembles, I
ValidateModelIOConfig, B ValidateBatchIO, G ValidateInstanceGroup, R the rate limiter, Q the sequence scheduler, P the
model repository, L the lookup of a backend. The exact wording is in `test_validate.py`.
"""

# One case a line reads best as a table.
# ruff: noqa: E501

from pathlib import Path

import pytest

from charonia.config.findings import Finding
from charonia.config.model_config import ConfigOptions, load_config

IO = 'input { name: "X" data_type: TYPE_FP32 dims: 4 } output { name: "Y" data_type: TYPE_FP32 dims: 4 }'
CUSTOM = f'backend: "custom" {IO}'
TENSORRT = f'backend: "tensorrt" {IO}'
START = "control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] }"


def batching(text: str) -> str:
    return f"{CUSTOM} max_batch_size: 4 dynamic_batching {{ {text} }}"


def sequences(text: str) -> str:
    return f"{CUSTOM} max_batch_size: 4 sequence_batching {{ {text} }}"


def state(text: str, initial: str = "") -> str:
    inside = f"initial_state {{ {initial} }}" if initial else ""
    return sequences(
        f'state {{ input_name: "a" output_name: "b" data_type: TYPE_FP32 dims: [ -1, 2 ] {text} {inside} }}'
    )


def initial(text: str) -> str:
    return state("", f'name: "z" {text}')


def one_input(text: str, more: str = "") -> str:
    return f'backend: "custom" {more} input {{ {text} }} output {{ name: "Y" data_type: TYPE_FP32 dims: 4 }}'


def one_output(text: str) -> str:
    return f'backend: "custom" input {{ name: "X" data_type: TYPE_FP32 dims: 4 }} output {{ {text} }}'


def steps(*texts: str, more: str = "", io: str = IO) -> str:
    return (
        f'platform: "ensemble" {io} {more} ensemble_scheduling {{ {" ".join(f"step {{ {text} }}" for text in texts)} }}'
    )


def step(reads: str = "X", writes: str = "Y", name: str = 'model_name: "a"') -> str:
    return f'{name} input_map {{ key: "i" value: "{reads}" }} output_map {{ key: "o" value: "{writes}" }}'


RULES = {
    # The model as a whole
    "V name is the folder's": (f'name: "other" {CUSTOM}', "name", "the two must be equal"),
    "V a name that leads elsewhere": (f'name: "../m" {CUSTOM}', "name", "the two must be equal"),
    "V neither platform nor backend": (IO, "backend", "nothing tells which backend serves"),
    "V unknown platform": (f'platform: "onnx" {IO}', "platform", 'write backend: "onnxruntime"'),
    "V misspelt platform": (f'platform: "onnxruntim" {IO}', "platform", 'did you mean "onnxruntime_onnx"'),
    "V platform of another backend": (f'platform: "tensorrt_plan" backend: "onnxruntime" {IO}', "platform", 'not one of backend "onnxruntime"'),
    "V backend beside the ensemble platform": (steps(step(), more='backend: "python"'), "backend", "an ensemble has no backend"),
    "V ensemble platform without steps": (f'platform: "ensemble" {IO}', "platform", "no ensemble_scheduling"),
    "V negative max_batch_size": (f"{CUSTOM} max_batch_size: -3", "max_batch_size", "max_batch_size is -3"),
    "P no versions in a policy of specific ones": (f"{CUSTOM} version_policy {{ specific {{ }} }}", "version_policy.specific.versions", "lists none"),
    "P repository agent without a name": (f'{CUSTOM} model_repository_agents {{ agents {{ }} }}', "model_repository_agents.agents[0]", "has no name"),
    "L runtime of another backend": (f'{CUSTOM} runtime: "libtriton_other.so"', "runtime", 'backend "custom" has no such library'),
    "L runtime that leads elsewhere": (f'{CUSTOM} runtime: "../x/libtriton_custom.so"', "runtime", "has no such library"),
    "L a Python runtime for what is not written in Python": (f'backend: "onnxruntime" runtime: "model.py" {IO}', "runtime", 'write "libtriton_onnxruntime.so"'),
    "V cache with sequences": (f"{sequences('')} response_cache {{ enable: true }}", "response_cache", "does not currently support models with sequence_batching"),
    "V cache of decoupled models": (f"{CUSTOM} model_transaction_policy {{ decoupled: true }} response_cache {{ enable: true }}", "response_cache", "does not currently support decoupled models"),
    "V metric without a family": (f"{CUSTOM} model_metrics {{ metric_control {{ histogram_options {{ buckets: 1 }} }} }}", "model_metrics.metric_control[0]", "names no metric"),
    "V metric without buckets": (f'{CUSTOM} model_metrics {{ metric_control {{ metric_identifier {{ family: "nv_inference_first_response_histogram_ms" }} }} }}', "model_metrics.metric_control[0]", "has no buckets"),
    # Dynamic batching
    "V preferred size of zero": (batching("preferred_batch_size: 0"), "dynamic_batching.preferred_batch_size[0]", "is not positive"),
    "V preferred size over the maximum": (batching("preferred_batch_size: [ 2, 8 ]"), "dynamic_batching.preferred_batch_size[1]", "above max_batch_size 4"),
    "V no default among priorities": (batching("priority_levels: 3"), "dynamic_batching.default_priority_level", "expected 1 to 3"),
    "V default priority over the last": (batching("priority_levels: 3 default_priority_level: 4"), "dynamic_batching.default_priority_level", "expected 1 to 3"),
    "V policy for priority zero": (batching("priority_levels: 1 default_priority_level: 1 priority_queue_policy { key: 0 value { } }"), 'dynamic_batching.priority_queue_policy["0"]', "level 0"),
    "V policy over the last priority": (batching("priority_levels: 1 default_priority_level: 1 priority_queue_policy { key: 2 value { } }"), 'dynamic_batching.priority_queue_policy["2"]', "level 2"),
    "V order and priorities": (batching("preserve_ordering: true priority_levels: 2 default_priority_level: 1"), "dynamic_batching.priority_levels", "only one of them"),
    "V order and delays": (batching("preserve_ordering: true default_queue_policy { timeout_action: DELAY default_timeout_microseconds: 9 }"), "dynamic_batching.default_queue_policy.timeout_action", "DELAY would change the order"),
    "V order and delays of one priority": (batching("preserve_ordering: true priority_levels: 1 default_priority_level: 1 priority_queue_policy { key: 1 value { timeout_action: DELAY default_timeout_microseconds: 9 } }"), 'dynamic_batching.priority_queue_policy["1"].timeout_action', "DELAY would change the order"),
    # Sequences
    "S control without a name": (sequences(f"control_input {{ {START} }}"), "sequence_batching.control_input[0]", "has no name"),
    "S one tensor for two controls": (sequences(f'control_input [ {{ name: "s" {START} }}, {{ name: "s" }} ]'), "sequence_batching.control_input[1]", "two control_inputs are named 's'"),
    "S one control for two tensors": (sequences(f'control_input [ {{ name: "s" {START} }}, {{ name: "t" {START} }} ]'), "sequence_batching.control_input[1].control[0]", "two tensors have the control CONTROL_SEQUENCE_START"),
    "S control without values": (sequences('control_input { name: "s" control { kind: CONTROL_SEQUENCE_READY } }'), "sequence_batching.control_input[0].control[0]", "got none"),
    "S control with values of two types": (sequences('control_input { name: "s" control { int32_false_true: [ 0, 1 ] fp32_false_true: [ 0, 1 ] } }'), "sequence_batching.control_input[0].control[0]", "got int32_false_true and fp32_false_true"),
    "S control with three values": (sequences('control_input { name: "s" control { bool_false_true: [ false, true, true ] } }'), "sequence_batching.control_input[0].control[0].bool_false_true", "has 3 values, expected 2"),
    "S id with values": (sequences('control_input { name: "s" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_INT32 int32_false_true: [ 0, 1 ] } }'), "sequence_batching.control_input[0].control[0]", "takes no int32_false_true"),
    "V id of a wrong type": (sequences('control_input { name: "s" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_FP32 } }'), "sequence_batching.control_input[0].control[0].data_type", "has data_type TYPE_FP32"),
    "V preferred size of zero, oldest": (sequences("oldest { preferred_batch_size: -1 }"), "sequence_batching.oldest.preferred_batch_size[0]", "is not positive"),
    "V preferred size over the maximum, oldest": (sequences("oldest { preferred_batch_size: 5 }"), "sequence_batching.oldest.preferred_batch_size[0]", "above max_batch_size 4"),
    "V slot utilization": (sequences("direct { minimum_slot_utilization: -0.5 }"), "sequence_batching.direct.minimum_slot_utilization", "expected 0 to 1"),
    "Q state without a name": (sequences('state { output_name: "b" data_type: TYPE_FP32 }'), "sequence_batching.state[0]", "has no input_name"),
    "Q two states of one name": (sequences('state [ { input_name: "a" output_name: "b" data_type: TYPE_FP32 }, { input_name: "a" output_name: "c" data_type: TYPE_FP32 } ]'), "sequence_batching.state[1].input_name", "two states have the input_name 'a'"),
    "Q two initial states": (state('initial_state { name: "z" data_type: TYPE_FP32 dims: [ 1, 2 ] zero_data: true } initial_state { name: "y" }'), "sequence_batching.state[0].initial_state[1]", "expected at most 1"),
    "Q initial state without a name": (state("", "data_type: TYPE_FP32 dims: [ 1, 2 ] zero_data: true"), "sequence_batching.state[0].initial_state[0]", "has no name"),
    "Q initial state of another type": (initial("data_type: TYPE_INT8 dims: [ 1, 2 ] zero_data: true"), "sequence_batching.state[0].initial_state[0].data_type", "the state has TYPE_FP32"),
    "Q initial state of another rank": (initial("data_type: TYPE_FP32 dims: [ 1 ] zero_data: true"), "sequence_batching.state[0].initial_state[0].dims", "the state has [-1, 2]"),
    "Q initial state of another size": (initial("data_type: TYPE_FP32 dims: [ 1, 3 ] zero_data: true"), "sequence_batching.state[0].initial_state[0].dims", "the state has [-1, 2]"),
    "Q initial state of open size": (initial("data_type: TYPE_FP32 dims: [ -1, 2 ] zero_data: true"), "sequence_batching.state[0].initial_state[0].dims", "has fixed sizes"),
    "Q initial state without data": (initial("data_type: TYPE_FP32 dims: [ 1, 2 ]"), "sequence_batching.state[0].initial_state[0]", "neither zero_data nor data_file"),
    "Q growing memory without one buffer": (f"{state('use_growable_memory: true')} instance_group {{ kind: KIND_GPU }}", "sequence_batching.state[0].use_growable_memory", "needs one buffer"),
    "Q state without a type": (sequences('state { input_name: "a" output_name: "b" dims: 1 }'), "sequence_batching.state[0]", "state 'a' has no data_type"),
    # Inputs and outputs
    "I no name": (one_input("data_type: TYPE_FP32 dims: 4"), "input[0]", "has no name"),
    "I no datatype": (one_input('name: "X" dims: 4'), "input[0]", "has no data_type"),
    "I no dims": (one_output('name: "Y" data_type: TYPE_FP32'), "output[0]", "has no dims"),
    "I a size of zero": (one_input('name: "X" data_type: TYPE_FP32 dims: [ 3, 0 ]'), "input[0].dims[1]", "0 is no size"),
    "I a negative size": (one_output('name: "Y" data_type: TYPE_FP32 dims: [ -2 ]'), "output[0].dims[0]", "-2 is no size"),
    "I more elements than can be counted": (one_input('name: "X" data_type: TYPE_INT8 dims: [ 4294967296, 4294967296 ]'), "input[0].dims", "more elements than 64 bits"),
    "I a scalar without a batch": (one_input('name: "X" data_type: TYPE_FP32 dims: 1 reshape { }'), "input[0].reshape", "is empty, a scalar"),
    "I a size of zero in the reshape": (one_input('name: "X" data_type: TYPE_FP32 dims: 1 reshape { shape: 0 }'), "input[0].reshape.shape[0]", "0 is no size"),
    "I another number of elements": (one_input('name: "X" data_type: TYPE_FP32 dims: [ 2, 3 ] reshape { shape: [ 5 ] }'), "input[0].reshape", "expected the same number of elements"),
    "I open sizes of one side only": (one_output('name: "Y" data_type: TYPE_FP32 dims: [ -1, 3 ] reshape { shape: [ 3 ] }'), "output[0].reshape", "got 1 and 0"),
    "I other sizes between open ones": (one_input('name: "X" data_type: TYPE_FP32 dims: [ 2, -1 ] reshape { shape: [ 3, -1 ] }'), "input[0].reshape", "the element counts are [2, 1] and [3, 1]"),
    "I format of an image": (one_input('name: "X" data_type: TYPE_FP32 dims: 4 format: FORMAT_NCHW'), "input[0].format", "expected 3 of them"),
    "I shape tensor": (one_input('name: "X" data_type: TYPE_FP32 dims: 4 is_shape_tensor: true'), "input[0].is_shape_tensor", "only TensorRT models have"),
    "I non-linear format": (one_output('name: "Y" data_type: TYPE_FP32 dims: 4 is_non_linear_format_io: true'), "output[0].is_non_linear_format_io", "only TensorRT models have"),
    "I non-linear format without three dims": (f'backend: "tensorrt" input {{ name: "X" data_type: TYPE_FP32 dims: 4 is_non_linear_format_io: true }} {IO.partition("} ")[2]}', "input[0].is_non_linear_format_io", "expected 3"),
    "I labels outside the model's folder": (one_output('name: "Y" data_type: TYPE_FP32 dims: 4 label_filename: "../l.txt"'), "output[0].label_filename", 'label_filename is "../l.txt", which leads out of the model\'s folder'),
    "B batch input of two sources": (f'{CUSTOM} batch_input {{ data_type: TYPE_FP32 source_input: [ "X", "X" ] }}', "batch_input[0]", "takes one source_input, got 2"),
    "B batch input of an unknown source": (f'{CUSTOM} batch_input {{ data_type: TYPE_FP32 source_input: "N" }}', "batch_input[0].source_input", "names the input 'N'"),
    "B batch input of a wrong type": (f'{CUSTOM} batch_input {{ data_type: TYPE_INT8 source_input: "X" }}', "batch_input[0].data_type", "TYPE_INT32 or TYPE_FP32, got TYPE_INT8"),
    "B batch output without a source": (f'{CUSTOM} batch_output {{ target_name: "Y" }}', "batch_output[0]", "takes one source_input, got 0"),
    "B batch output of an unknown target": (f'{CUSTOM} batch_output {{ target_name: "N" source_input: "X" }}', "batch_output[0].target_name", "names the output 'N'"),
    "B batch output of one target twice": (f'{CUSTOM} batch_output {{ target_name: [ "Y", "Y" ] source_input: "X" }}', "batch_output[0].target_name", "'Y' twice"),
    # Files
    "L file outside the model's folder": (f'backend: "custom" default_model_filename: "../../x.so" {IO}', "default_model_filename", "leads out of the model's folder"),
    "L file at an absolute path": (f'backend: "custom" default_model_filename: "/etc/passwd" {IO}', "default_model_filename", "leads out of the model's folder"),
    "L file of one GPU type outside": (f'{TENSORRT} cc_model_filenames {{ key: "7.5" value: "../../x.plan" }}', 'cc_model_filenames["7.5"]', 'cc_model_filenames is "../../x.plan", which leads out of the model\'s folder'),
    "Q state in a file outside": (initial('data_type: TYPE_FP32 dims: [ 1, 2 ] data_file: "../../x"'), "sequence_batching.state[0].initial_state[0].data_file", "leads out of the model's folder"),
    "P warm-up data outside": (f'{CUSTOM} model_warmup {{ name: "w" batch_size: 1 inputs {{ key: "X" value {{ input_data_file: "../../x" }} }} }}', 'model_warmup[0].inputs["X"].input_data_file', 'input_data_file is "../../x", which leads out of the model\'s folder (warmup/ in it)'),
    # Instance groups
    "G GPUs of a CPU group": (f"{CUSTOM} instance_group {{ kind: KIND_CPU gpus: 0 }}", "instance_group[0].gpus", "has kind KIND_CPU and lists gpus [0]"),
    "G GPUs of a model's own placing": (f"{CUSTOM} instance_group {{ kind: KIND_MODEL gpus: 0 }}", "instance_group[0].gpus", "has kind KIND_MODEL and lists gpus [0]"),
    "G a million instances": (f"{CUSTOM} instance_group {{ count: 1000000 }}", "instance_group", "have 1000000 instances together, expected at most 4096"),
    "G thousands of groups": (f"{CUSTOM} {'instance_group { count: 2 } ' * 2049}", "instance_group", "have 4098 instances together"),
    "G negative GPU": (f"{CUSTOM} instance_group {{ kind: KIND_GPU gpus: -1 }}", "instance_group[0].gpus", "lists the GPU -1"),
    "G profile": (f'{CUSTOM} instance_group {{ profile: "0" }}', "instance_group[0].profile", "only TensorRT models have"),
    "G profile that is no number": (f'{TENSORRT} instance_group {{ profile: "fast" }}', "instance_group[0].profile", "expected numbers in quotes"),
    "R resource of all devices and of each": (f'{CUSTOM} instance_group [ {{ rate_limiter {{ resources {{ name: "R" global: true count: 1 }} }} }}, {{ rate_limiter {{ resources {{ name: "R" count: 1 }} }} }} ]', "instance_group[1].rate_limiter.resources[0]", "is global in one place"),
    # Ensembles
    "E steps of what is no ensemble": (f'{CUSTOM} ensemble_scheduling {{ step {{ {step()} }} }}', "ensemble_scheduling", 'needs platform "ensemble"'),
    "E instance groups": (steps(step(), more="instance_group { }"), "instance_group", "an ensemble has no instance_group"),
    "E optimization": (steps(step(), more="optimization { }"), "optimization", "an ensemble has no optimization"),
    "E warm-up": (steps(step(), more="model_warmup { }"), "model_warmup", "an ensemble has no model_warmup"),
    "E no step": (steps(), "ensemble_scheduling", "the ensemble has no step"),
    "E step without a model": (steps(step(name="")), "ensemble_scheduling.step[0]", "step 1 has no model_name"),
    "E step without inputs": (steps('model_name: "a" output_map { key: "o" value: "Y" }', io=IO.partition("} ")[2]), "ensemble_scheduling.step[0]", "has no input_map"),
    "E step without outputs": (steps('model_name: "a" input_map { key: "i" value: "X" }', io=IO.partition("} ")[0] + "}"), "ensemble_scheduling.step[0]", "has no output_map"),
    "E one tensor from two steps": (steps(step(), step()), "ensemble_scheduling.step[1].output_map", "'Y' is written twice"),
    "E one tensor from a step and an input": (steps(step(), step(writes="X")), "ensemble_scheduling.step[1].output_map", "'X' is written twice"),
    "E input that nobody reads": (steps(step(reads="Z", writes="Y"), step(reads="Y", writes="Z")), "input[0]", "'X', from an input of the ensemble, is not used"),
    "E output that nobody writes": (steps(step(writes="Z"), step(reads="Z", writes="X2"), io=IO), "output[0]", "no step writes the ensemble's output 'Y'"),
    "E tensor from nowhere": (steps(step(), step(reads="N", writes="X2")), "ensemble_scheduling.step[1].input_map", "'N' is read by step 2 ('a'), but neither"),
    "E tensor from nowhere, nearly one that nobody reads": (steps(step(writes="middle"), step(reads="midle")), "ensemble_scheduling.step[1].input_map", 'write value: "middle"'),
    "E key and value the wrong way round": (steps('model_name: "a" input_map { key: "X" value: "i" } output_map { key: "o" value: "Y" }'), "ensemble_scheduling.step[0].input_map", 'write key: "i" value: "X": the key is the model\'s name'),
    "E tensor that nobody reads": (steps(step(), step(writes="N")), "ensemble_scheduling.step[1]", "'N', from step 2 ('a'), is not used"),
    "E circle of one": (steps(step(), step("a", "a")), "ensemble_scheduling.step[1]", "waits for a tensor that only it writes"),
    "E circle": (steps(step(), step("a", "b"), step("b", "a")), "ensemble_scheduling.step[1]", "wait for one another in a circle"),
}  # fmt: skip


def findings(folder: Path, text: str) -> list[Finding]:
    (folder / "1").mkdir(parents=True, exist_ok=True)
    (folder / "config.pbtxt").write_text(text)
    return list(load_config(folder, "m", ConfigOptions(auto_complete=False)).errors)


@pytest.mark.parametrize(("text", "path", "phrase"), RULES.values(), ids=RULES.keys())
def test_rule(tmp_path: Path, text: str, path: str, phrase: str) -> None:
    found = {finding.path: finding for finding in findings(tmp_path / "m", text)}
    assert path in found, found
    finding = found[path]
    assert phrase in f"{finding.message}; {finding.remedy}"
    assert str(finding).startswith(f"{tmp_path}/m/config.pbtxt")
    assert finding.remedy, "it must say what to write"


@pytest.mark.parametrize(
    "text",
    [
        CUSTOM,
        f"{CUSTOM} version_policy {{ specific {{ versions: [ 0, 1 ] }} }}",
        f'{CUSTOM} runtime: "libtriton_custom.so"',
        f'{CUSTOM} runtime: "model.py"',
        f'{CUSTOM} default_model_filename: "sub/../x.bin"',
        f'{CUSTOM} default_model_filename: "../shared/x.bin"',
        batching("priority_levels: 2 default_priority_level: 1 priority_queue_policy { key: 2 value { timeout_action: DELAY default_timeout_microseconds: 5 } }"),
        batching("preserve_ordering: true default_queue_policy { timeout_action: DELAY }"),
        sequences(f'control_input {{ name: "s" {START} control {{ kind: CONTROL_SEQUENCE_END fp32_false_true: [ 0, 1 ] }} }} oldest {{ }}'),
        initial("data_type: TYPE_FP32 dims: [ 7, 2 ] zero_data: true"),
        initial("data_type: TYPE_FP32 dims: [ 0, 2 ] zero_data: true"),
        state("use_growable_memory: true use_same_buffer_for_input_output: true"),
        one_input('name: "X" data_type: TYPE_FP32 dims: 1 reshape { }', "max_batch_size: 1"),
        f'{CUSTOM} instance_group {{ rate_limiter {{ resources {{ name: "R" count: 1 }} }} }}',
        f'{TENSORRT} instance_group {{ profile: [ "0", "3" ] }}',
        steps(step("mid", "Y"), step("X", "mid", name='model_name: "b"')),
    ],
)  # fmt: skip
def test_what_keeps_the_rules(tmp_path: Path, text: str) -> None:
    assert findings(tmp_path / "m", text) == []
