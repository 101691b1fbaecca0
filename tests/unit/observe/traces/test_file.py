"""Which file a trace goes to, and when: by log frequency and by count, as in Triton."""

import errno
import json
import os

import pytest

from charonia.observe.traces.file import FileSink, TraceFile
from charonia.observe.traces.setting import Level
from charonia.testing.log import kept_log
from tests.unit.observe.traces.trace_world import World


@pytest.fixture
def path(tmp_path):
    return tmp_path / "trace.json"


@pytest.fixture
def sink(path):
    return FileSink(TraceFile(str(path), kept_log()[0]))


def ids(path):
    """The numbers of the traces in a file, in order; what is there is a whole JSON document."""
    return list(dict.fromkeys(record["id"] for record in json.loads(path.read_text()))) if path.exists() else None


def numbered(path, number):
    return ids(path.with_name(f"{path.name}.{number}"))


def test_without_a_limit_each_is_there_at_once(sink, path):
    world = World()
    for expected in ([1], [1, 2], [1, 2, 3]):
        sink.take(world.traced())
        assert ids(path) == expected
    sink.close()
    assert ids(path) == [1, 2, 3]


def test_nothing_traced_makes_no_file(sink, path):
    sink.close()
    assert not path.exists()


def test_a_log_frequency_makes_files_of_so_many(sink, path):
    world = World(log_frequency=2)
    for _ in range(5):
        sink.take(world.traced())
    assert (numbered(path, 0), numbered(path, 1), numbered(path, 2)) == ([1, 2], [3, 4], None)
    sink.close()
    assert numbered(path, 2) == [5]
    assert not path.exists()


def test_a_count_that_is_used_up_makes_a_file_of_its_own(sink, path):
    world = World(count_=2)
    sink.take(world.traced())
    assert numbered(path, 0) is None
    sink.take(world.traced())
    assert numbered(path, 0) == [1, 2]


def test_the_last_one_of_a_count_waits_for_those_before_it(sink, path):
    world = World(count_=2)
    slow = world.trace()
    sink.take(world.traced())
    assert numbered(path, 0) is None
    slow.left(None)
    sink.take(world.done.pop())
    assert numbered(path, 0) == [2, 1]


def test_a_count_that_is_not_used_up_goes_to_the_file_itself(sink, path):
    world = World(count_=9)
    sink.take(world.traced())
    sink.close()
    assert ids(path) == [1]


def test_settings_that_were_replaced_leave_nothing_behind(sink, path):
    old, new = World(count_=9), World()
    waiting = old.trace()
    sink.take(old.traced())
    old.setting.retire()
    sink.retired(old.setting)
    assert ids(path) is None, "one of its traces is under way"
    waiting.left(None)
    sink.take(old.done.pop())
    assert ids(path) == [2, 1]
    new.trace(), new.trace()
    sink.take(new.traced())
    assert ids(path) == [2, 1, 3]


def test_what_can_not_be_written_is_told_once(tmp_path):
    log, lines = kept_log()
    sink = FileSink(TraceFile(str(tmp_path / "no" / "t.json"), log))
    world = World()
    sink.take(world.traced())
    sink.take(world.traced())
    sink.close()
    assert lines.text.count("failed creating trace file") == 1


def test_a_disk_that_is_full_for_a_while_leaves_a_whole_document(sink, path, monkeypatch):
    world, write = World(), os.pwrite
    sink.take(world.traced())

    def half(file, data, offset):
        if len(data) == 1:
            return write(file, data, offset)
        if len(data) < 200:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, data[: len(data) // 2], offset)

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", half)
        sink.take(world.traced())
        assert ids(path) == [1]
    sink.take(world.traced())
    assert ids(path) == [1, 3]


def test_a_device_that_takes_nothing_fails_no_end():
    log, lines = kept_log()
    sink = FileSink(TraceFile("/dev/full", log))
    sink.take(World().traced())
    sink.close()
    assert lines.text.count("No space left") == 1


def test_a_pipe_that_nobody_reads_holds_nobody_up(path):
    os.mkfifo(path)
    log, lines = kept_log()
    sink = FileSink(TraceFile(str(path), log))
    sink.take(World().traced())
    sink.close()
    assert "failed creating trace file" in lines.text


@pytest.mark.parametrize("of_setting", [{}, {"count_": 3}, {"count_": 9, "log_frequency": 3}])
def test_calls_without_records_leave_a_whole_document(sink, path, of_setting):
    world = World(Level.TENSORS, **of_setting)
    for has_request in (False, True, False):
        if not has_request:
            world.trace().left(None)
        sink.take(world.traced() if has_request else world.done.pop())
    sink.close()
    (written,) = path.parent.glob("trace.json*")
    assert ids(written) == [2]
