"""Log lines in the three formats, levels, and readers that stall or leave."""

import errno
import json
import os
import re

import pytest

from charonia.core.log import LogLevel
from charonia.observe.log import NO_CHANGES, LevelChanges, LogLevels, LogSettings, ServerLog
from charonia.observe.log_lines import LINES
from charonia.observe.sink import DescriptorSink, FileSink
from charonia.options import LOG_FORMATS
from charonia.testing.log import KeptLines

MOMENT_S = 1764431453.381695


def log(**settings: object) -> tuple[ServerLog, KeptLines]:
    lines = KeptLines()
    return ServerLog(LogSettings(**settings), lines, lambda: MOMENT_S), lines  # type: ignore[arg-type]


def test_the_default_format() -> None:
    made, lines = log()
    made.info('said "hello"\nI1129 forged')
    expected = rf'I1129 15:50:53.381695 {os.getpid()} test_log.py:\d+\] "said \\"hello\\"\\nI1129 forged"\n'
    assert re.fullmatch(expected, lines.text)


def test_iso_8601() -> None:
    made, lines = log(format="ISO8601")
    made.warning("careful")
    assert re.fullmatch(rf'2025-11-29T15:50:53Z W {os.getpid()} test_log.py:\d+\] "careful"\n', lines.text)


def test_json_lines() -> None:
    made, lines = log(format="json")
    made.error("über\n")
    made.table("+--+\n|a |")
    first, second = map(json.loads, lines.text.splitlines())
    assert first == {
        "time": "2025-11-29T15:50:53.381695Z",
        "level": "ERROR",
        "pid": os.getpid(),
        "file": "test_log.py",
        "line": first["line"],
        "message": "über\n",
    }
    assert second["message"] == "+--+\n|a |"


def test_a_table_is_printed_as_it_is_after_an_empty_message() -> None:
    made, lines = log()
    made.table("+--+\n|a |\n+--+")
    head, rest = lines.text.split("\n", 1)
    assert head.endswith('] ""')
    assert rest == "+--+\n|a |\n+--+\n\n"


@pytest.mark.parametrize("style", ["default", "ISO8601"])
def test_lines_below_an_error_are_written_as_they_are(style: str) -> None:
    made, lines = log(format=style)
    made.error("wrong", '    "here"\n       ^')
    head, rest = lines.text.split("\n", 1)
    assert head.endswith('] "wrong"')
    assert rest == '    "here"\n       ^\n'


def test_lines_below_an_error_are_part_of_it_in_json() -> None:
    made, lines = log(format="json")
    made.about("m").error("wrong", '    "here"\n       ^')
    (line,) = lines.text.splitlines()
    assert json.loads(line)["message"] == 'wrong\n    "here"\n       ^'


def test_levels_can_be_switched_while_it_runs() -> None:
    made, lines = log(info=False, warning=False, verbose_level=1)
    made.info("no")
    made.warning("no")
    made.verbose("no", level=2)
    made.record(LogLevel.INFO, "no", "model.py", 1)
    assert lines.text == ""
    made.verbose("yes")
    made.change(LogSettings(warning=False, verbose_level=1))
    made.record(LogLevel.INFO, "also", "model.py", 7)
    assert re.findall(r'(\S+):\d+\] "(\w+)"', lines.text) == [("test_log.py", "yes"), ("model.py", "also")]
    assert "model.py:7]" in lines.text


def test_a_reader_that_left_does_no_harm() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    sink = DescriptorSink(writer, owned=True)
    assert not sink.write(b"into\nthe void\n")
    assert (sink.lost, sink.why) == (2, "Broken pipe")
    sink.close()


def fill_pipe(sink: DescriptorSink) -> None:
    while sink.write(b"x" * 4095 + b"\n"):
        pass


@pytest.mark.parametrize("style", LOG_FORMATS)
def test_a_stalled_reader_loses_lines_and_is_told_later(style: str) -> None:
    reader, writer = os.pipe()
    sink = DescriptorSink(writer, owned=True, grace_ms=0)
    made = ServerLog(LogSettings(format=style), sink)
    fill_pipe(sink)
    made.info("lost")
    assert sink.lost == 2
    os.read(reader, 1 << 20)
    made.info("back")
    told, back = os.read(reader, 1 << 20).decode().splitlines()
    assert "lines of the log that could not be written here: 2 (nobody reads them)" in told
    assert "back" in back
    assert style != "json" or json.loads(told)["level"] == "WARNING"
    assert not sink.lost
    made.close()
    os.close(reader)


class Disk:
    """In place of `os.write`: takes as many bytes as there is room for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, room: int) -> None:
        self.room = room
        self._write = os.write
        monkeypatch.setattr(os, "write", self.write)

    def write(self, descriptor: int, data: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        written = self._write(descriptor, data[: self.room])
        self.room -= written
        return written


@pytest.mark.parametrize(
    ("room", "lost", "kept"), [(6, 3, ["one", "tw"]), (8, 2, ["one", "two"]), (4, 3, ["one"]), (0, 4, [])]
)
def test_what_comes_after_half_a_line_begins_a_line(tmp_path, monkeypatch, room, lost, kept) -> None:
    path = tmp_path / "server.log"
    sink = FileSink(str(path))
    disk = Disk(monkeypatch, room)
    assert not sink.write(b"one\ntwo\nthree\n")
    assert not sink.write(b"four\n")
    assert (sink.lost, sink.why) == (lost, "No space left on device")
    disk.room = 1000
    assert sink.write(b"five\n")
    assert sink.write(b"six\n")
    sink.close()
    assert path.read_text().splitlines() == [*kept, "five", "six"]


@pytest.mark.parametrize("renamed", [False, True])
def test_a_file_that_is_opened_again_after_half_a_line(tmp_path, monkeypatch, renamed) -> None:
    path = tmp_path / "server.log"
    sink = FileSink(str(path))
    disk = Disk(monkeypatch, 2)
    assert not sink.write(b"one\n")
    disk.room = 1000
    if renamed:
        path.rename(tmp_path / "old")
    sink.reopen()
    assert sink.write(b"two\n")
    sink.close()
    assert path.read_text() == ("two\n" if renamed else "on\ntwo\n")


def test_a_file_that_was_closed_stays_closed(tmp_path) -> None:
    sink = FileSink(str(tmp_path / "server.log"))
    sink.close()
    sink.reopen()
    assert not sink.write(b"one\n")
    assert (tmp_path / "server.log").read_text() == ""


def test_a_disk_that_stays_full_is_told_once_there_is_room(tmp_path, monkeypatch) -> None:
    path = tmp_path / "server.log"
    disk = Disk(monkeypatch, 0)
    made = ServerLog(LogSettings(), FileSink(str(path)))
    for _ in range(3):
        made.info("lost")
    disk.room = 1000
    made.info("written")
    made.close()
    told, written = path.read_text().splitlines()
    assert "could not be written here: 3 (No space left on device)" in told
    assert written.endswith('"written"')


def test_every_format_of_the_flag_has_its_line():
    assert set(LINES) == set(LOG_FORMATS)


HOSTILE = (
    '\nI1129 15:50:53.381695 1 forged.cc:1] "forged"',
    "\r\x1b[2J\x1b[31mred\x9b31m\x07\x00\x7f\x85",
    "line\u2028separator\u2029 and \u202eturned\u2066",
    "half \ud800 of a pair",
)


@pytest.mark.parametrize("style", LOG_FORMATS)
@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_can_forge_a_line_or_steer_a_terminal(style: str, text: str) -> None:
    made, lines = log(format=style)
    made.info(f"request '{text}'")
    (line,) = lines.text.splitlines()
    assert line.isprintable()
    message = json.loads(line)["message"] if style == "json" else json.loads(line[line.index("]") + 2 :])
    assert message == f"request '{text}'"


def test_lines_below_a_message_can_not_steer_a_terminal_either() -> None:
    made, lines = log()
    made.error("broken", "  1 | \x1b[2J\x9b31m\u202e\tx\r\n    | ^")
    made.table("| \x1b |")
    assert all(line.replace("\t", "").isprintable() for line in lines.text.split("\n"))
    assert "  1 | \\u001b[2J\\u009b31m\\u202e\tx\\u000d\n    | ^\n" in lines.text


def test_messages_may_be_written_as_they_are() -> None:
    lines = KeptLines()
    ServerLog(LogSettings(), lines, lambda: MOMENT_S, escape=False).info('two\n"lines"')
    assert lines.text.endswith('] two\n"lines"\n')


def test_details_may_go_elsewhere() -> None:
    trouble, details = KeptLines(), KeptLines()
    made = ServerLog(LogSettings(verbose_level=1), trouble, details=details)
    for say in (made.info, made.verbose, made.warning, made.error):
        say("message")
    made.table("+--+")
    assert re.findall("^[A-Z]", details.text, re.MULTILINE) == ["I", "I", "I"]
    assert re.findall("^[A-Z]", trouble.text, re.MULTILINE) == ["W", "E"]


def test_a_model_may_have_levels_of_its_own() -> None:
    made, lines = log(info=False)
    about = made.about("m")
    made.change_model("m", LevelChanges(info=True, error=False, verbose_level=2))
    about.info("told")
    about.error("silenced")
    about.verbose("detail", level=2)
    about.record(LogLevel.INFO, "by the model", "model.py", 3)
    made.info("silent")
    made.about("other").info("silent")
    assert re.findall(r'(\S+):\d+\] "(.+)"', lines.text) == [
        ("test_log.py", "told"),
        ("test_log.py", "detail"),
        ("model.py", "by the model"),
    ]


def test_what_a_model_leaves_open_follows_the_server() -> None:
    made, _ = log()
    made.change_model("m", LevelChanges(verbose_level=3))
    made.change(LogSettings(warning=False))
    assert made.levels_of("m") == LogLevels(warning=False, verbose_level=3)
    assert (made.highest_verbosity, made.about("m").highest_verbosity, made.about("n").highest_verbosity) == (3, 3, 0)
    made.change_model("m", NO_CHANGES)
    assert made.levels_of("m") == made.settings
    assert made.highest_verbosity == 0


def test_a_pipe_that_nobody_reads_holds_nobody_up(tmp_path: object) -> None:
    path = f"{tmp_path}/pipe"
    os.mkfifo(path)
    with pytest.raises(OSError, match="No such device"):
        FileSink(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    sink = FileSink(path)
    sink.write(b"line\n")
    assert os.read(reader, 100) == b"line\n"
    sink.close()
    os.close(reader)


def test_the_format_changes_while_it_runs_and_the_file_does_not(tmp_path: object) -> None:
    path = f"{tmp_path}/server.log"
    made = ServerLog(LogSettings(file=path), FileSink(path))
    made.info("one")
    made.change(LogSettings(format="ISO8601", file="elsewhere"))
    made.info("two")
    made.close()
    assert made.settings == LogSettings(format="ISO8601", file=path)
    with open(path) as text:
        first, second = text
    assert first.startswith("I")
    assert re.match(r"\d{4}-\d\d-\d\dT", second)
