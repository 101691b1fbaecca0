"""Segments of shared memory by their descriptors."""

import os

import numpy as np
import pytest

from charonia.core.errors import InternalError, InvalidArgumentError, UnsupportedError
from charonia.memory import segment as module
from charonia.memory.segment import SegmentTooShort, as_bytes, open_segment


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "FOLDER", str(tmp_path))
    (tmp_path / "one").write_bytes(bytes(range(10)))
    return tmp_path


def array(count):
    return np.full(count, 99, np.uint8)


def test_reading(folder):
    opened, target = open_segment("r", "/one"), array(4)
    assert opened.read(3, target) == 4
    assert target.tolist() == [3, 4, 5, 6]
    assert opened.read(8, target) == 2
    assert target.tolist() == [8, 9, 0, 0], "behind the end are zeros, never what was there before"
    assert opened.read(1 << 60, target) == 0
    assert opened.read(0, array(0)) == 0


def test_writing(folder):
    opened = open_segment("r", "one")
    opened.write(8, as_bytes(b"ab"))
    assert (folder / "one").read_bytes() == bytes(range(8)) + b"ab"
    with pytest.raises(SegmentTooShort) as short:
        opened.write(9, as_bytes(b"cd"))
    assert short.value.nbytes == 10
    assert (folder / "one").read_bytes() == bytes(range(8)) + b"ab"
    opened.write(10, as_bytes(b""))


def test_large_pieces_come_in_several_calls(folder, monkeypatch):
    monkeypatch.setattr(module, "_MOST_AT_ONCE", 3)
    opened, target = open_segment("r", "one"), array(10)
    assert opened.read(0, target) == 10
    opened.write(0, target[::-1].copy())
    assert (folder / "one").read_bytes() == bytes(reversed(range(10)))


def test_long_ones_and_cut_ones(folder):
    data = np.random.default_rng(1).integers(0, 256, 5_000_001, np.uint8)
    (folder / "one").write_bytes(bytes(len(data) + 7))
    opened, target = open_segment("r", "one"), array(len(data))
    opened.write(7, data)
    assert opened.read(7, target) == len(data)
    np.testing.assert_array_equal(target, data)
    for left in (4_000_000, 0):
        os.truncate(folder / "one", 7 + left)
        target[:] = 99
        assert opened.read(7, target) == left
        np.testing.assert_array_equal(target[:left], data[:left])
        assert not target[left:].any()
        with pytest.raises(SegmentTooShort):
            opened.write(7, data)
        assert os.path.getsize(folder / "one") == 7 + left


def test_it_is_the_same_memory_when_the_name_has_gone(folder):
    opened, target = open_segment("r", "one"), array(1)
    (folder / "one").unlink()
    (folder / "one").write_bytes(b"another")
    opened.read(5, target)
    assert target.tolist() == [5]


def test_the_descriptor_is_closed_with_the_last_reference(folder):
    before = set(os.listdir("/proc/self/fd"))
    opened = open_segment("r", "one")
    assert len(set(os.listdir("/proc/self/fd"))) == len(before) + 1
    del opened
    assert len(set(os.listdir("/proc/self/fd"))) == len(before)


@pytest.mark.parametrize("key", ["", "/", "///", ".", "..", "/..", "../one", "a/one", "one/", "a\0", "ä" * 128])
def test_keys_that_are_no_name(key):
    with pytest.raises(InvalidArgumentError, match="cannot register shared memory region 'r' - invalid shm key"):
        open_segment("r", key)


@pytest.mark.parametrize("slashes", ["", "/", "//"])
def test_segments_of_python_models_are_not_the_clients(folder, slashes):
    name = module.RESERVED_PREFIX + "1"
    (folder / name).write_bytes(b"x")
    with pytest.raises(InvalidArgumentError, match="reserved prefix 'triton_python_backend_shm_region_'"):
        open_segment("r", slashes + name)


def test_what_is_not_there_or_no_segment(folder):
    (folder / "link").symlink_to(folder / "one")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    for key in ("nothing", "link", "folder", "pipe", "\udc00", "\ud800"):
        with pytest.raises(InternalError, match="Unable to open shared memory region"):
            open_segment("r", key)


def test_a_system_without_the_folder(monkeypatch):
    monkeypatch.setattr(module, "FOLDER", "/nowhere")
    with pytest.raises(UnsupportedError, match="/nowhere"):
        open_segment("r", "one")


def test_arrays_of_every_type_are_bytes():
    from ml_dtypes import bfloat16

    assert as_bytes(np.ones((2, 3), bfloat16)).nbytes == 12
    assert as_bytes(np.ones((2, 3), np.float64)).nbytes == 48
    assert as_bytes(np.array(3, np.int32)).tolist() == [3, 0, 0, 0]
    assert as_bytes(np.ones((0, 3))).nbytes == 0
    assert as_bytes(b"").nbytes == 0
