"""What works and costs is a warning; what was written on purpose is none."""

from pathlib import Path

import pytest

from charonia.backends.placement import Devices
from charonia.config.findings import Finding
from charonia.config.model_config import ConfigOptions
from charonia.repository.inspection import read_model
from charonia.repository.scan import scan
from charonia.tools.check.costs import completed_costs, model_costs

CPU = Devices((), cores=4)
TENSORS = """
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ 4 ] } ]
    output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 4 ] } ]
"""


def costs(
    tmp_path: Path, config: str, backend: str = "onnxruntime", versions: tuple[int, ...] = (1,), tensors: str = TENSORS
) -> list[Finding]:
    for version in versions:
        (tmp_path / "m" / str(version)).mkdir(parents=True)
    platform = 'platform: "onnxruntime_onnx"' if backend == "onnxruntime" else ""
    (tmp_path / "m" / "config.pbtxt").write_text(f'backend: "{backend}" {platform} {tensors}\n{config}')
    reading = read_model(scan([str(tmp_path)]).models["m"], ConfigOptions())
    assert reading.error is None
    found = reading.loaded.config
    return [*model_costs(reading, found, CPU), *completed_costs(reading, found, 64 << 20)]


COSTS = {
    "no dynamic batching": ("max_batch_size: 8", ("requests don't batch", "max_batch_size is 8", "dynamic_batching {")),
    "a delay for nobody": (
        "max_batch_size: 1 dynamic_batching { max_queue_delay_microseconds: 100 }",
        ("joins nothing", "max_batch_size is 1", "100 microseconds"),
    ),
    "more instances than cores": ("instance_group [ { count: 9 } ]", ("9 instances share 4 core(s)", "count: 4")),
    "more threads than cores": (
        'instance_group [ { count: 2 } ] parameters { key: "intra_op_thread_count" value { string_value: "3" } }',
        ("2 instance(s) of 3 threads", "4 core(s)", "leave intra_op_thread_count out"),
    ),
    "a parameter that nobody reads": (
        'parameters { key: "intra_op_threads_count" value { string_value: "3" } }',
        ("'intra_op_threads_count'", "did you mean 'intra_op_thread_count'?"),
    ),
    "a parameter of the server's own that nobody reads": (
        'parameters { key: "batch_strategy" value { string_value: "batching.py" } }',
        ("nothing reads the parameter 'batch_strategy'", "did you mean 'batching_strategy'?"),
    ),
    "a target that nobody reads": (
        'parameters { key: "latency_p95_ms" value { string_value: "20" } }',
        ("nothing reads the parameter 'latency_p95_ms'", "did you mean 'latency_target_p95_ms'?"),
    ),
    "a sequence an instance": ("sequence_batching { }", ("one sequence at a time", "max_batch_size is 0", "oldest {")),
    "states beyond the memory": (
        "max_batch_size: 1 sequence_batching { oldest { max_candidate_sequences: 500 } "
        'state { input_name: "a" output_name: "b" data_type: TYPE_FP32 dims: [ 1000, 1000 ] } }',
        ("the states of 500 sequences", "2,000,000,000 bytes"),
    ),
}


@pytest.mark.parametrize("case", COSTS)
def test_is_a_warning(tmp_path: Path, case: str) -> None:
    config, said = COSTS[case]
    (finding,) = costs(tmp_path, config)
    assert not finding.is_error
    assert finding.place is not None
    assert finding.place.file == str(tmp_path / "m" / "config.pbtxt")
    for each in said:
        assert each in str(finding)


@pytest.mark.parametrize(
    "config",
    [
        "max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 100 }",
        "max_batch_size: 0",
        "max_batch_size: 1",
        "instance_group [ { count: 4 } ]",
        "sequence_batching { direct { } }",
        'max_batch_size: 8 sequence_batching { state { input_name: "a" output_name: "b" data_type: 1 dims: 1 } }',
        'parameters { key: "my_own" value { string_value: "3" } }',
        'parameters { key: "session.intra_op.allow_spinning" value { string_value: "1" } }',
    ],
)
def test_what_costs_nothing(tmp_path: Path, config: str) -> None:
    assert costs(tmp_path, config) == []


def test_a_python_model_leaves_cores_idle_unless_that_is_written(tmp_path: Path) -> None:
    (finding,) = costs(tmp_path, "", backend="python")
    assert "one core of 4" in finding.message
    assert "count: 4" in finding.remedy
    assert costs(tmp_path / "meant", "instance_group [ { count: 1 } ]", backend="python") == []


def test_versions_that_are_not_served_unless_a_policy_says_so(tmp_path: Path) -> None:
    (finding,) = costs(tmp_path, "", versions=(1, 2, 10))
    assert "only the latest version 10 is served, and not 1, 2" in finding.message
    assert "version_policy { all { } }" in finding.remedy
    assert costs(tmp_path / "meant", "version_policy { latest { num_versions: 1 } }", versions=(1, 2)) == []


@pytest.mark.parametrize(
    ("dims", "said"),
    [
        ("[ 100000, 100000 ]", "40,000,000,000 bytes a row"),
        ("[ 5000, 5000 ]", "--http-max-input-size=200000000"),
    ],
)
def test_rows_that_are_more_than_anybody_sends(tmp_path: Path, dims: str, said: str) -> None:
    (finding,) = costs(tmp_path, "", tensors=TENSORS.replace("[ 4 ]", dims, 1))
    assert said in str(finding)
