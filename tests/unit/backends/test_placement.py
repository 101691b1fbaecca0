"""From instance groups to instances."""

from dataclasses import replace
from typing import Any

import pytest
from google.protobuf import text_format

from charonia.backends.base import InstanceSpec
from charonia.backends.placement import Devices, instance_count, place, share_of_cores
from charonia.config.rate_limits import NeededResource, RateNeeds
from charonia.config.schema import ModelConfig
from charonia.core.errors import InvalidArgumentError

NO_GPU = Devices((), 8)
CPU_INSTEAD = Devices((), 8, "cpu")
TWO_GPUS = Devices((0, 1), 8)


def _placed(groups: str, devices: Devices, log: Any, threads: int = 2) -> list[tuple[str, str, str]]:
    config = text_format.Parse(f'name: "m" {groups}', ModelConfig())
    specs = place(config, devices, threads, log)
    assert all(spec.cpu_threads == threads for spec in specs)
    assert len(specs) == instance_count(config, devices)
    return [(spec.name, spec.kind, spec.device) for spec in specs]


def test_one_instance_by_default(log: Any) -> None:
    assert _placed("", NO_GPU, log) == [("m_0", "KIND_CPU", "cpu")]


def test_the_default_takes_every_gpu_there_is(log: Any) -> None:
    assert _placed("", TWO_GPUS, log) == [("m_0", "KIND_GPU", "gpu:0"), ("m_0", "KIND_GPU", "gpu:1")]


def test_several_groups_and_their_names(log: Any) -> None:
    groups = 'instance_group [ { count: 2 kind: KIND_CPU }, { name: "other" kind: KIND_MODEL }, { count: 1 } ]'
    assert _placed(groups, NO_GPU, log) == [
        ("m_0_0", "KIND_CPU", "cpu"),
        ("m_0_1", "KIND_CPU", "cpu"),
        ("other_0", "KIND_MODEL", "cpu"),
        ("m_2_0", "KIND_CPU", "cpu"),
    ]


def test_gpus(log: Any) -> None:
    groups = "instance_group [ { count: 2 kind: KIND_GPU gpus: [ 1 ] }, { kind: KIND_GPU }, { gpus: [ 1, 7 ] } ]"
    assert _placed(groups, TWO_GPUS, log) == [
        ("m_0_0", "KIND_GPU", "gpu:1"),
        ("m_0_1", "KIND_GPU", "gpu:1"),
        ("m_1_0", "KIND_GPU", "gpu:0"),
        ("m_1_0", "KIND_GPU", "gpu:1"),
        ("m_2_0", "KIND_CPU", "cpu"),
    ]


def test_passive_groups_have_instances_that_need_no_cores(log: Any) -> None:
    config = text_format.Parse('name: "m" instance_group [ { passive: true }, { kind: KIND_CPU } ]', ModelConfig())
    assert [(spec.name, spec.passive) for spec in place(config, NO_GPU, 1, log)] == [("m_0_0", True), ("m_1_0", False)]
    assert instance_count(config, NO_GPU) == 1


@pytest.mark.parametrize(
    ("group", "devices", "cores"),
    [
        ("kind: KIND_CPU", NO_GPU, (0, 1)),
        ("kind: KIND_MODEL", NO_GPU, (2,)),
        ('kind: KIND_CPU host_policy: "mine"', NO_GPU, (4, 5)),
        ('kind: KIND_CPU host_policy: "unknown"', NO_GPU, ()),
        ("kind: KIND_GPU gpus: [ 1 ]", TWO_GPUS, (3,)),
        ("kind: KIND_GPU gpus: [ 0 ]", TWO_GPUS, ()),
    ],
)
def test_a_group_runs_on_the_cores_of_its_policy_or_of_its_kind(
    group: str, devices: Devices, cores: tuple[int, ...], log: Any
) -> None:
    config = text_format.Parse(f'name: "m" instance_group {{ {group} }}', ModelConfig())
    policies = {"cpu": (0, 1), "model": (2,), "gpu_1": (3,), "mine": (4, 5)}
    [spec] = place(config, replace(devices, policies=policies), 8, log)
    assert spec.cores == cores
    assert spec.cpu_threads == (len(cores) or 8)


def test_what_a_group_needs_of_the_rate_limiter_and_whether_two_say_the_same(log: Any) -> None:
    def spec(group: str) -> InstanceSpec:
        config = text_format.Parse(f'name: "m" instance_group {{ {group} }}', ModelConfig())
        return place(config, NO_GPU, 1, log)[0]

    limited = spec('rate_limiter { resources [ { name: "R" count: 2 }, { name: "G" count: 1 global: true } ] }')
    assert limited.rate == RateNeeds((NeededResource("R", 2, False), NeededResource("G", 1, True)), 1)
    assert spec("rate_limiter { priority: 3 }").rate.priority == 3
    assert spec("rate_limiter { priority: 0 }").rate.priority == 1
    assert spec('name: "a" count: 2 kind: KIND_CPU').settings == spec('name: "b"').settings
    for other in ('host_policy: "x"', "passive: true", "rate_limiter { priority: 2 }", "secondary_devices { }"):
        assert spec(other).settings != spec("").settings


def test_no_gpu_is_an_error_that_names_the_flag(log: Any) -> None:
    with pytest.raises(InvalidArgumentError, match=r"m_0 of model m has kind KIND_GPU.*--no-gpu=cpu"):
        _placed("instance_group { kind: KIND_GPU }", NO_GPU, log)


def test_no_gpu_can_mean_the_cpu_with_one_warning(log: Any) -> None:
    group = "instance_group { count: 2 kind: KIND_GPU gpus: [ 0, 1 ] }"
    assert _placed(group, CPU_INSTEAD, log) == [("m_0_0", "KIND_CPU", "cpu"), ("m_0_1", "KIND_CPU", "cpu")]
    (warning,) = log.of("warning")
    assert "--no-gpu=cpu" in warning


@pytest.mark.parametrize(
    ("group", "words"),
    [
        ("kind: KIND_GPU gpus: [ 0, 3 ]", "wants GPU 3, but the visible GPUs are 0, 1"),
        ("kind: KIND_CPU gpus: [ 0 ]", "has kind KIND_CPU but lists gpus 0"),
        ("kind: KIND_MODEL gpus: [ 0 ]", "has kind KIND_MODEL but lists gpus 0"),
        ("kind: KIND_CPU count: -1", "has count -1"),
    ],
)
def test_groups_that_cannot_be_placed(log: Any, group: str, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"instance group m_0 of model m {words}"):
        place(text_format.Parse(f'name: "m" instance_group {{ {group} }}', ModelConfig()), TWO_GPUS, 1, log)


@pytest.mark.parametrize(("instances", "threads"), [(1, 8), (3, 2), (8, 1), (20, 1), (0, 8)])
def test_cores_are_shared_by_all_instances(log: Any, instances: int, threads: int) -> None:
    assert share_of_cores(NO_GPU, instances, log) == threads
    assert log.of("info")
