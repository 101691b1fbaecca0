"""What is filled in, as Triton's own expectations for these configurations have it, and the reason that is given."""

# One case a line reads best as a table.
# ruff: noqa: E501

from pathlib import Path

import pytest
from google.protobuf import text_format

from charonia.config.defaults import fill_backend, normalize
from charonia.config.findings import Completion
from charonia.config.instance_groups import fill_instance_groups
from charonia.config.layout import Layout, explain_no_backend, read_layout
from charonia.config.pbtxt import parse_pbtxt
from charonia.config.schema import ModelConfig

PINNED = "optimization { input_pinned_memory { enable: true } output_pinned_memory { enable: true } }"
LATEST = "version_policy { latest { num_versions: 1 } }"


def layout(name: str, *files: str, folders: tuple[str, ...] = ()) -> Layout:
    return Layout(Path(name), "1", files, folders)


def filled(text: str, name: str, lies: Layout, gpus: tuple[int, ...] = ()) -> tuple[ModelConfig, list[Completion]]:
    config = parse_pbtxt(text, "c").config
    done, findings = fill_backend(config, name, lies)
    assert findings == []
    return config, [*done, *normalize(config), *fill_instance_groups(config, gpus)]


# model name, what config.pbtxt says, files in the version folder, GPUs, what is in force
CASES = [
    pytest.param(
        "m", "", ("model.onnx",), (),
        f'name: "m" platform: "onnxruntime_onnx" backend: "onnxruntime" default_model_filename: "model.onnx" {LATEST} {PINNED} '
        'instance_group { name: "m" kind: KIND_CPU count: 1 }',
        id="onnx without a config",
    ),
    pytest.param(
        "m", "", ("model.py",), (),
        f'name: "m" backend: "python" default_model_filename: "model.py" {LATEST} {PINNED} instance_group {{ name: "m" kind: KIND_CPU count: 1 }}',
        id="python without a config",
    ),
    pytest.param(
        "m", 'platform: "onnxruntime_onnx" backend: "python"', (), (),
        f'name: "m" platform: "onnxruntime_onnx" backend: "python" default_model_filename: "model.py" {LATEST} {PINNED} '
        'instance_group { name: "m" kind: KIND_CPU count: 1 }',
        id="the platform of another backend",
    ),
    pytest.param(
        "m", 'platform: "python" backend: "python"', (), (),
        f'name: "m" platform: "python" backend: "python" default_model_filename: "model.py" {LATEST} {PINNED} instance_group {{ name: "m" kind: KIND_CPU count: 1 }}',
        id="a platform that is none beside the backend",
    ),
    pytest.param(
        "m", "", ("model.plan",), (0, 1),
        f'name: "m" platform: "tensorrt_plan" backend: "tensorrt" default_model_filename: "model.plan" {LATEST} {PINNED} '
        'instance_group { name: "m" kind: KIND_GPU count: 1 gpus: [ 0, 1 ] }',
        id="tensorrt on two GPUs",
    ),
    pytest.param(
        "m", "", ("model.pt",), (),
        f'name: "m" platform: "pytorch_libtorch" backend: "pytorch" default_model_filename: "model.pt" {LATEST} {PINNED} '
        'instance_group { name: "m" kind: KIND_CPU count: 1 }',
        id="pytorch",
    ),
    pytest.param(
        "m", "", ("model.bin", "model.xml"), (),
        f'name: "m" backend: "openvino" default_model_filename: "model.xml" {LATEST} {PINNED} instance_group {{ name: "m" kind: KIND_CPU count: 1 }}',
        id="openvino",
    ),
    pytest.param(
        "model.identity", "", (), (),
        f'name: "model.identity" backend: "identity" default_model_filename: "model.identity" {LATEST} {PINNED} '
        'instance_group { name: "model.identity" kind: KIND_CPU count: 1 }',
        id="the backend in the name",
    ),
    pytest.param(
        "m", 'platform: "onnxruntime_onnx" max_batch_size: 8 instance_group { name: "m" kind: KIND_CPU }', ("model.onnx",), (0,),
        f'name: "m" platform: "onnxruntime_onnx" backend: "onnxruntime" default_model_filename: "model.onnx" max_batch_size: 8 {LATEST} {PINNED} '
        'instance_group { name: "m" kind: KIND_CPU count: 2 }',
        id="a CPU group of an ONNX model without a count has two",
    ),
    pytest.param(
        "m", 'backend: "onnxruntime"', (), (),
        f'name: "m" platform: "onnxruntime_onnx" backend: "onnxruntime" default_model_filename: "model.onnx" {LATEST} {PINNED} '
        'instance_group { name: "m" kind: KIND_CPU count: 1 }',
        id="only the backend",
    ),
    pytest.param(
        "m", 'default_model_filename: "net.onnx"', ("net.onnx",), (),
        f'name: "m" platform: "onnxruntime_onnx" backend: "onnxruntime" default_model_filename: "net.onnx" {LATEST} {PINNED} '
        'instance_group { name: "m" kind: KIND_CPU count: 1 }',
        id="only a file name",
    ),
    pytest.param(
        "m", 'platform: "libtorch"', (), (),
        f'name: "m" platform: "libtorch" backend: "pytorch" default_model_filename: "model.pt" {LATEST} {PINNED} '
        'instance_group { name: "m" kind: KIND_CPU count: 1 }',
        id="the other name of a platform",
    ),
    pytest.param(
        "m", 'backend: "pytorch"', ("model.pt2",), (),
        f'name: "m" platform: "torch_aoti" backend: "pytorch" default_model_filename: "model.pt2" {LATEST} {PINNED} '
        'instance_group { name: "m" kind: KIND_CPU count: 1 }',
        id="the platform from the file where a backend has two",
    ),
    pytest.param(
        "m", 'backend: "vllm" instance_group [ { kind: KIND_MODEL } ]', ("model.json",), (),
        f'name: "m" backend: "vllm" {LATEST} {PINNED} instance_group {{ name: "m_0" kind: KIND_MODEL count: 1 }}',
        id="a backend that has no rule",
    ),
    pytest.param(
        "m", 'backend: "python" max_batch_size: 16 dynamic_batching { } instance_group [ { count: 2 }, { kind: KIND_CPU } ]', ("model.py",), (),
        f'name: "m" backend: "python" max_batch_size: 16 default_model_filename: "model.py" {LATEST} {PINNED} dynamic_batching {{ preferred_batch_size: 16 }} '
        'instance_group [ { name: "m_0" kind: KIND_CPU count: 2 }, { name: "m_1" kind: KIND_CPU count: 1 } ]',
        id="dynamic batching prefers full batches, groups are numbered",
    ),
    pytest.param(
        "m", 'backend: "python" dynamic_batching { }', ("model.py",), (),
        f'name: "m" backend: "python" default_model_filename: "model.py" {LATEST} {PINNED} dynamic_batching {{ }} '
        'instance_group { name: "m" kind: KIND_CPU count: 1 }',
        id="dynamic batching without batches",
    ),
    pytest.param(
        "m", 'backend: "python" max_batch_size: 4 dynamic_batching { preferred_batch_size: [ 2, 4 ] max_queue_delay_microseconds: 100 }', ("model.py",), (),
        f'name: "m" backend: "python" max_batch_size: 4 default_model_filename: "model.py" {LATEST} {PINNED} '
        'dynamic_batching { preferred_batch_size: [ 2, 4 ] max_queue_delay_microseconds: 100 } instance_group { name: "m" kind: KIND_CPU count: 1 }',
        id="what is said stays",
    ),
    pytest.param(
        "m", 'backend: "python" max_batch_size: 4 sequence_batching { oldest { max_candidate_sequences: 2 } }', ("model.py",), (),
        f'name: "m" backend: "python" max_batch_size: 4 default_model_filename: "model.py" {LATEST} {PINNED} '
        'sequence_batching { max_sequence_idle_microseconds: 1000000 oldest { max_candidate_sequences: 2 preferred_batch_size: 4 } } '
        'instance_group { name: "m" kind: KIND_CPU count: 1 }',
        id="oldest sequences",
    ),
    pytest.param(
        "m", 'backend: "python" sequence_batching { direct { } max_sequence_idle_microseconds: 5 }', ("model.py",), (),
        f'name: "m" backend: "python" default_model_filename: "model.py" {LATEST} {PINNED} sequence_batching {{ direct {{ }} max_sequence_idle_microseconds: 5 }} '
        'instance_group { name: "m" kind: KIND_CPU count: 1 }',
        id="direct sequences",
    ),
    pytest.param(
        "m", 'backend: "python" version_policy { all { } } optimization { input_pinned_memory { enable: false } }', ("model.py",), (),
        'name: "m" backend: "python" default_model_filename: "model.py" version_policy { all { } } '
        'optimization { input_pinned_memory { } output_pinned_memory { enable: true } } instance_group { name: "m" kind: KIND_CPU count: 1 }',
        id="pinned memory that is switched off stays off",
    ),
    pytest.param(
        "m", 'ensemble_scheduling { step { model_name: "a" } }', (), (),
        f'name: "m" platform: "ensemble" {LATEST} ensemble_scheduling {{ step {{ model_name: "a" }} }}',
        id="an ensemble has neither instances nor optimization",
    ),
    pytest.param(
        "m", 'backend: "python" instance_group [ { kind: KIND_GPU }, { gpus: [ 1 ] }, { gpus: [ 3 ] } ]', ("model.py",), (0, 1),
        f'name: "m" backend: "python" default_model_filename: "model.py" {LATEST} {PINNED} instance_group [ '
        '{ name: "m_0" kind: KIND_GPU count: 1 gpus: [ 0, 1 ] }, { name: "m_1" kind: KIND_GPU count: 1 gpus: 1 }, { name: "m_2" kind: KIND_CPU count: 1 } ]',
        id="KIND_AUTO takes a GPU only when all that it lists are there",
    ),
    pytest.param(
        "m", 'backend: "python" instance_group [ { kind: KIND_GPU gpus: [ 0 ] count: 2 } ]', ("model.py",), (),
        f'name: "m" backend: "python" default_model_filename: "model.py" {LATEST} {PINNED} instance_group {{ name: "m_0" kind: KIND_GPU count: 2 gpus: 0 }}',
        id="KIND_GPU stays without a GPU",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "files", "gpus", "expected"), CASES)
def test_what_is_in_force(name: str, text: str, files: tuple[str, ...], gpus: tuple[int, ...], expected: str) -> None:
    config, _ = filled(text, name, layout(name, *files), gpus)
    assert config == text_format.Parse(expected, ModelConfig())


def test_filling_twice_changes_nothing() -> None:
    config, _ = filled("max_batch_size: 4 dynamic_batching { }", "m", layout("m", "model.onnx"))
    before = config.SerializeToString(deterministic=True)
    assert [*normalize(config), *fill_instance_groups(config)] == []
    assert config.SerializeToString(deterministic=True) == before


def test_the_first_rule_wins_where_several_files_lie() -> None:
    config, _ = filled("", "m", layout("m", "model.onnx", "model.plan", "model.py"))
    assert config.backend == "tensorrt"


def test_a_large_onnx_model_may_be_a_folder_and_a_torch_model_may_not() -> None:
    config, _ = filled("", "m", Layout(Path("m"), "1", (), ("model.onnx",)))
    assert config.backend == "onnxruntime"
    _, findings = fill_backend(ModelConfig(), "m", Layout(Path("m"), "1", (), ("model.pt",)))
    assert findings


def test_each_filled_field_has_its_reason() -> None:
    _, done = filled(
        "max_batch_size: 8 dynamic_batching { } instance_group { count: -1 }", "m", layout("m", "model.onnx")
    )
    assert [str(completion) for completion in done] == [
        'name: "m" (the folder\'s name)',
        'backend: "onnxruntime" (1/model.onnx is there)',
        'platform: "onnxruntime_onnx" (1/model.onnx is there)',
        'default_model_filename: "model.onnx" (1/model.onnx is there)',
        "version_policy: { latest { num_versions: 1 } } (default)",
        "dynamic_batching.preferred_batch_size: [ 8 ] (max_batch_size)",
        "optimization.input_pinned_memory: { enable: true } (default)",
        "optimization.output_pinned_memory: { enable: true } (default)",
        "instance_group[0].name: \"m_0\" (the model's name and the group's number)",
        "instance_group[0].kind: KIND_CPU (no GPU that it could use is visible)",
        "instance_group[0].count: 2 (-1 is read as not set; default of onnxruntime on the CPU)",
    ]


NOTHING = "nothing tells which backend serves model 'm': there is no 'backend' and no 'platform' in its config"


@pytest.mark.parametrize(
    ("text", "lies", "expected"),
    [
        ("", Layout(Path("m")), f"{NOTHING}, and no version folder; make the folder 'm/1' and put the model file into it"),
        ("", Layout(Path("m"), beside=("config.pbtxt", "model.onnx")), f"{NOTHING}, and no version folder; make the folder 'm/1' and move 'model.onnx' into it"),
        ("", Layout(Path("m"), "1", (), (), ("model.onnx",)), f"{NOTHING}; 'model.onnx' lies beside the version folder: move it to 'm/1/model.onnx'"),
        ("", Layout(Path("m"), "2", ("resnet50.onnx",)), f"{NOTHING}; rename 'm/2/resnet50.onnx' to 'model.onnx', or write a config.pbtxt with backend: \"onnxruntime\" default_model_filename: \"resnet50.onnx\""),
        ("", Layout(Path("m"), "1", ("readme.txt",)), f"{NOTHING}, and 'm/1' holds 'readme.txt'; name the model file as one of model.savedmodel, model.graphdef, model.plan, model.onnx, model.xml, model.pt, model.pt2, model.py, or set backend: \"…\" in config.pbtxt"),
        ('platform: "onnx"', Layout(Path("m"), "1", ("model.onnx",)), "platform \"onnx\" of model 'm' is not known; write backend: \"onnxruntime\" or platform: \"onnxruntime_onnx\"; platforms are tensorflow_savedmodel, tensorflow_graphdef, tensorrt_plan, onnxruntime_onnx, pytorch_libtorch, torch_aoti, ensemble"),
        ('default_model_filename: "weights"', Layout(Path("m"), "1"), "default_model_filename \"weights\" does not tell the backend of 'm'; set backend: \"…\" beside it"),
    ],
)  # fmt: skip
def test_when_nothing_tells_the_backend(text: str, lies: Layout, expected: str) -> None:
    document = parse_pbtxt(text, "c")
    _, (finding,) = fill_backend(document.config, "m", lies, document.places)
    assert f"{finding.message}; {finding.remedy}" == expected


def test_a_version_folder_that_can_not_be_read_is_not_said_to_be_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "m/1").mkdir(parents=True)
    monkeypatch.setattr("os.access", lambda path, mode: False)
    message, remedy = explain_no_backend("m", read_layout(tmp_path / "m"))
    assert message == f"{NOTHING}, and 'm/1' can't be read"
    assert remedy.endswith(f"chmod a+rx '{tmp_path}/m/1'")
