"""The table of regions: names, bounds, and who is using what."""

import threading

import numpy as np
import pytest

from charonia.core.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError, UnavailableError
from charonia.core.tensor import HostBuffer
from charonia.memory import segment
from charonia.memory.copies import Copies
from charonia.memory.region import CUDA, SYSTEM, Faults
from charonia.memory.regions import Regions, default_limit
from charonia.testing.log import kept_log


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(segment, "FOLDER", str(tmp_path))
    (tmp_path / "k").write_bytes(bytes(range(100)))
    return tmp_path


@pytest.fixture
def regions():
    return Regions(kept_log()[0], allowed=True)


def names(regions):
    return [each.name for each in regions.system()]


def test_registering_and_forgetting(regions):
    for name in ("b", "a", "c"):
        regions.register_system(name, "/k", 10, 20)
    assert names(regions) == ["a", "b", "c"]
    (one,) = regions.system("b")
    assert (one.key, one.offset, one.byte_size) == ("/k", 10, 20)
    regions.unregister(SYSTEM, "b")
    regions.unregister(SYSTEM, "b")
    regions.unregister(CUDA, "a")
    regions.unregister(CUDA)
    assert names(regions) == ["a", "c"]
    regions.unregister(SYSTEM)
    assert names(regions) == []


def test_a_name_is_taken_once(regions):
    regions.register_system("a", "k", 0, 1)
    with pytest.raises(AlreadyExistsError, match="'a' already in manager"):
        regions.register_system("a", "k", 0, 2)
    assert regions.system("a")[0].byte_size == 1


def test_unknown_names_and_kinds(regions):
    regions.register_system("a", "k", 0, 1)
    with pytest.raises(NotFoundError, match="Unable to find system shared memory region: 'x'"):
        regions.system("x")
    with pytest.raises(NotFoundError, match="'a' is registered as system shared memory, not CUDA"):
        regions.cuda("a")
    with pytest.raises(NotFoundError, match="Unable to find shared memory region: 'x'"):
        regions.claim("x")
    assert regions.cuda() == []


@pytest.mark.parametrize(
    ("offset", "byte_size"),
    [(0, 101), (100, 1), (1, 100), (-1, 10), (0, 0), (100, 0), (10, -5), (2**64 - 1, 2**64 - 1), (2**200, 1)],
)
def test_parts_that_the_segment_does_not_have(regions, offset, byte_size):
    with pytest.raises(InvalidArgumentError, match="invalid args: segment 'k' has 100 bytes"):
        regions.register_system("a", "k", offset, byte_size)
    assert names(regions) == []


def test_there_are_not_more_than_open_files_allow():
    regions = Regions(kept_log()[0], allowed=True, limit=2)
    regions.register_system("a", "k", 0, 1)
    regions.register_system("b", "k", 0, 1)
    with pytest.raises(UnavailableError, match="there are 2 regions"):
        regions.register_system("c", "k", 0, 1)
    regions.unregister(SYSTEM, "a")
    regions.register_system("c", "k", 0, 1)
    assert default_limit() >= 1


def test_what_is_in_use_stays_until_it_is_released_as_often_as_it_was_claimed():
    log, kept = kept_log(verbose_level=1)
    regions = Regions(log, allowed=True)
    regions.register_system("a", "k", 0, 1)
    first = regions.claim("a")
    second = regions.claim("a")
    regions.unregister(SYSTEM, "a")
    assert names(regions) == ["a"]
    assert "'a' will be unregistered after in-flight requests complete: 2 tensors" in kept.text
    regions.release([first])
    third = regions.claim("a")  # while it is there, it is there for all
    regions.release([second])
    assert names(regions) == ["a"]
    regions.release([third])
    assert names(regions) == []


def test_a_region_that_was_not_unregistered_outlives_its_users(regions):
    regions.register_system("a", "k", 0, 1)
    regions.release([regions.claim("a"), regions.claim("a")])
    assert names(regions) == ["a"]


def test_a_table_that_was_cleared_takes_claims_back(regions):
    regions.register_system("a", "k", 0, 1)
    claimed = regions.claim("a")
    regions.unregister(SYSTEM)
    regions.clear()
    regions.register_system("a", "k", 0, 2)
    regions.release([claimed])
    assert names(regions) == ["a"], "another region of the same name"


def test_claims_from_many_threads(regions):
    regions.register_system("a", "k", 0, 1)

    def use():
        for _ in range(1000):
            regions.release([regions.claim("a")])

    threads = [threading.Thread(target=use) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert regions.system("a")[0].users == 0
    regions.unregister(SYSTEM)
    assert names(regions) == []


@pytest.mark.parametrize(
    ("offset", "byte_size", "error"),
    [
        (20, 0, "Invalid offset for"),
        (-1, 4, "Invalid offset for"),
        (2**64 - 8, 16, "Invalid offset for"),
        (1, 2**64 - 1, "Integer overflow detected: byte_size"),
        (0, 2**64 - 1, "Invalid offset \\+ byte size"),
        (0, 2**300, "Integer overflow"),
        (0, 21, "Invalid offset \\+ byte size"),
        (19, 2, "Invalid offset \\+ byte size"),
        (0, -1, "Invalid offset \\+ byte size"),
    ],
)
def test_places_outside_a_region(regions, offset, byte_size, error):
    regions.register_system("a", "k", 10, 20)
    with pytest.raises(InvalidArgumentError, match=error):
        regions.claim("a").check(offset, byte_size)


def test_places_inside_a_region(regions, folder):
    regions.register_system("a", "k", 10, 20)
    region, faults = regions.claim("a"), Faults()
    for offset, byte_size in ((0, 20), (19, 1), (19, 0), (0, 0)):
        region.check(offset, byte_size)
    assert region.input(3, 4, faults, Copies()).host().tolist() == [13, 14, 15, 16], (
        "the region's own offset counts once"
    )
    region.write(17, HostBuffer(b"abc", 3, owned=True))
    assert (folder / "k").read_bytes()[26:31] == bytes([26]) + b"abc" + bytes([30])
    assert faults.first is None


def test_a_segment_cut_short_reads_as_zeros_with_a_fault_and_takes_no_output(regions, folder):
    regions.register_system("a", "k", 10, 20)
    region, faults = regions.claim("a"), Faults()
    buffer = region.input(0, 20, faults, Copies())
    with (folder / "k").open("r+b") as file:
        file.truncate(12)
    assert buffer.host().tolist() == [10, 11, *[0] * 18]
    assert "region 'a' is shorter than it was" in faults.first
    assert "'k' has 12 bytes, expected at least 30" in faults.first
    with pytest.raises(InvalidArgumentError, match="'k' has 12 bytes, expected at least 14"):
        region.write(1, HostBuffer(b"abc", 3, owned=True))
    assert (folder / "k").stat().st_size == 12


def test_a_machine_without_memory_for_the_segment_fails_one_output(regions, monkeypatch):
    regions.register_system("a", "k", 0, 20)
    region = regions.claim("a")

    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(segment.os, "pwrite", full)
    with pytest.raises(UnavailableError, match=r"'a' can't be written: .*No space left"):
        region.write(0, HostBuffer(b"abc", 3, owned=True))


def test_a_segment_that_cant_be_read_is_a_fault(regions, monkeypatch):
    regions.register_system("a", "k", 0, 20)
    faults = Faults()
    buffer = regions.claim("a").input(0, 4, faults, Copies())

    def broken(*args):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(segment.os, "preadv", broken)
    target = np.full(4, 9, np.uint8)
    buffer.read_into(target)
    assert target.tolist() == [0, 0, 0, 0]
    assert "'a' can't be read" in faults.first


def test_the_first_fault_is_told():
    faults = Faults()
    faults.tell("one")
    faults.tell("two")
    assert faults.first == "one"
