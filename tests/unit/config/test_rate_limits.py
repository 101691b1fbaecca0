"""What the command line says of resources and of host policies."""

import pytest

from charonia.config.host_policies import host_policies, remarks
from charonia.config.rate_limits import EACH_DEVICE, given_resources
from charonia.core.errors import InvalidArgumentError


def test_resources_are_given_for_each_device_or_for_one():
    given = given_resources(["R1:10", "R2:5:0", "R2:8:1", "R3:2:-1"])
    assert given == {EACH_DEVICE: {"R1": 10, "R3": 2}, 0: {"R2": 5}, 1: {"R2": 8}}


def test_of_a_resource_that_is_given_twice_the_smaller_count_is_true():
    assert given_resources(["R:3", "R:2", "R:4"]) == {EACH_DEVICE: {"R": 2}}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("R", "expects <name>:<count>"),
        (":3", "expects <name>:<count>"),
        ("R:1:2:3", "expects <name>:<count>"),
        ("R:", "the count must be a whole number.*got ''"),
        ("R:x", "the count .*got 'x'"),
        ("R:-1", "the count must be a whole number from 0"),
        ("R:1_0", "the count"),
        ("R:4294967296", "the count"),
        ("R:1:x", "the device .*got 'x'"),
        ("R:1:-2", "the device must be a whole number from -1"),
    ],
)
def test_resources_of_another_form_are_refused(text, reason):
    with pytest.raises(InvalidArgumentError, match=f"--rate-limit-resource.*{reason}"):
        given_resources([text])


def test_cores_of_policies():
    settings = {"a": {"cpu-cores": "0-2"}, "b": {"cpu-cores": "8-9,1-1,9-10"}, "c": {"numa-node": "0"}}
    assert host_policies(settings) == {"a": (0, 1, 2), "b": (1, 8, 9, 10)}


@pytest.mark.parametrize("cores", ["3", "", "2-1", "a-b", "0-1,", "0-1;2-3", "-1-2", "0-99999"])
def test_cores_of_another_form_are_refused(cores):
    with pytest.raises(InvalidArgumentError, match="--host-policy=p,cpu-cores expects"):
        host_policies({"p": {"cpu-cores": cores}})


def test_a_node_has_a_number():
    with pytest.raises(InvalidArgumentError, match=r"--host-policy=p,numa-node .*'one'"):
        host_policies({"p": {"numa-node": "one"}})


def test_what_is_not_done_is_said():
    said = remarks({"p": {"cpu-cores": "0-1", "numa-node": "0", "color": "red"}})
    assert [line.partition(":")[0] for line in said] == ["--host-policy=p,numa-node", "--host-policy=p,color"]
    assert "not bound" in said[0]
