"""The thread that writes the access log."""

import queue

import pytest

from charonia.core.errors import InvalidArgumentError
from charonia.frontend.access_log import AccessLog, open_access_log
from charonia.testing.log import KeptLines, kept_log

PATIENCE_S = 20


class Wire:
    """Gives what it is told, and nothing once it is shut down."""

    def __init__(self, *batches):
        self._batches = queue.SimpleQueue()
        for batch in batches:
            self._batches.put(batch)

    def shut_down(self):
        self._batches.put(None)

    def take_access(self, timeout_s):
        batch = self._batches.get(timeout=PATIENCE_S)
        if batch is None:
            self.shut_down()
            return b"", 0
        return batch


def test_everything_is_written_before_the_end():
    wire, kept, (log, said) = Wire((b"one\n", 0), (b"two\n", 7), (b"three\n", 0)), KeptLines(), kept_log()
    access = AccessLog(kept)
    access.start(wire.take_access, log, lambda name, error: None)
    wire.shut_down()
    access.close(PATIENCE_S)
    assert kept.lines == ["one", "two", "three"]
    assert "7 lines of the access log were dropped" in said.text


class FullDisk(KeptLines):
    """Has room only for what contains `room`."""

    def __init__(self, room):
        super().__init__()
        self.why = "No space left on device"
        self._room = room

    def write(self, data):
        if self._room in data:
            return super().write(data)
        self.lost += data.count(b"\n")
        return False


@pytest.mark.parametrize("room", [b"four", b"nothing"])
def test_lines_that_can_not_be_written_are_told_by_the_log(room):
    wire, kept, (log, said) = Wire((b"one\n", 0), (b"two\nthree\n", 0), (b"four\n", 0)), FullDisk(room), kept_log()
    access = AccessLog(kept)
    access.start(wire.take_access, log, lambda name, error: None)
    wire.shut_down()
    access.close(PATIENCE_S)
    assert said.text.count("the access log can't be written: No space left on device") == 1
    lost = 3 if room == b"four" else 4
    assert f"lines of the access log that could not be written: {lost} (No space left on device)" in said.lines[-1]
    assert kept.lines == (["four"] if room == b"four" else []), "the log is told, not the access log"


def test_a_failure_of_the_thread_is_told():
    died = queue.SimpleQueue()

    def broken(timeout_s):
        raise RuntimeError("no wire")

    access = AccessLog(KeptLines())
    access.start(broken, kept_log()[0], lambda name, error: died.put((name, str(error))))
    assert died.get(timeout=PATIENCE_S) == ("access-log", "no wire")
    access.close(PATIENCE_S)


def test_no_path_no_log():
    assert open_access_log("") is None


def test_standard_output():
    assert open_access_log("-") is not None


def test_a_file_that_can_not_be_written(tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"--access-log=.*can't be written: No such file"):
        open_access_log(str(tmp_path / "no" / "access.log"))
