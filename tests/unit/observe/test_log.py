"""Log lines in the three formats, levels, and readers that stall or leave."""

import json
import os
import re

import pytest

from charonia.core.log import LogLevel
from charonia.observe.log import _LINES, LogSettings, ServerLog
from charonia.observe.sink import DescriptorSink
from charonia.options import LOG_FORMATS

MOMENT_S = 1764431453.381695


class Lines:
    def __init__(self) -> None:
        self.text = ""

    def write(self, data: bytes) -> None:
        self.text += data.decode()

    def close(self) -> None: ...


def log(**settings: object) -> tuple[ServerLog, Lines]:
    lines = Lines()
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


def test_levels_can_be_switched_while_it_runs() -> None:
    made, lines = log(info=False, warning=False, verbose_level=1)
    made.info("no")
    made.warning("no")
    made.verbose("no", level=2)
    made.record(LogLevel.INFO, "no", "model.py", 1)
    assert lines.text == ""
    made.verbose("yes")
    made.settings.info = True
    made.record(LogLevel.INFO, "also", "model.py", 7)
    assert re.findall(r'(\S+):\d+\] "(\w+)"', lines.text) == [("test_log.py", "yes"), ("model.py", "also")]
    assert "model.py:7]" in lines.text


def test_a_file(tmp_path: object) -> None:
    path = f"{tmp_path}/server.log"
    made = ServerLog(LogSettings(file=path))
    made.info("one")
    made.close()
    with open(path) as text:
        assert text.read().endswith('"one"\n')


def test_a_file_that_cannot_be_opened(tmp_path: object) -> None:
    with pytest.raises(OSError, match="nowhere"):
        ServerLog(LogSettings(file=f"{tmp_path}/nowhere/server.log"))


def test_a_reader_that_left_does_no_harm() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    sink = DescriptorSink(writer, owned=True)
    sink.write(b"into the void\n")
    sink.close()


def test_a_stalled_reader_loses_lines_and_is_told_later() -> None:
    reader, writer = os.pipe()
    sink = DescriptorSink(writer, owned=True, grace_ms=0)
    while not sink.dropped:
        sink.write(b"x" * 4095 + b"\n")
    sink.write(b"lost\n")
    assert sink.dropped == 2
    os.read(reader, 1 << 20)
    sink.write(b"back\n")
    assert os.read(reader, 1 << 20) == b"(2 log messages were dropped because nobody read them)\nback\n"
    sink.close()
    os.close(reader)


def test_every_format_of_the_flag_has_its_line():
    assert set(_LINES) == set(LOG_FORMATS)
