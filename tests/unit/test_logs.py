"""Where the log goes, by the options."""

import json
import logging
import os
import threading

import pytest

from charonia.core.errors import InvalidArgumentError
from charonia.logs import PythonLogging, open_log
from charonia.observe.log import LogSettings, ServerLog
from charonia.options import ServerOptions
from charonia.testing.log import KeptLines, kept_log


def said(options, capfd, **how):
    log = open_log(ServerOptions.of(**options), **how)
    for say in (log.info, log.verbose, log.warning, log.error):
        say("two\nlines")
    log.close()
    out, err = capfd.readouterr()
    return [line[0] for line in out.splitlines()], [line[0] for line in err.splitlines()]


def test_a_process_of_its_own_has_information_on_standard_output(capfd):
    assert said({"log_verbose": 1}, capfd, own_process=True) == (["I", "I"], ["W", "E"])


def test_an_embedded_server_leaves_standard_output_alone(capfd):
    assert said({"log_verbose": 1}, capfd) == ([], ["I", "I", "W", "E"])


def test_a_file_has_everything(capfd, tmp_path):
    path = tmp_path / "server.log"
    assert said({"log_file": str(path)}, capfd, own_process=True) == ([], [])
    assert [line[0] for line in path.read_text().splitlines()] == ["I", "W", "E"]


def test_a_file_that_can_not_be_written_names_the_flag(tmp_path):
    for path in (tmp_path / "nowhere" / "server.log", tmp_path):
        with pytest.raises(InvalidArgumentError, match=f"--log-file={path} can't be written: "):
            open_log(ServerOptions.of(log_file=str(path)))


def test_the_settings_are_the_options():
    options = ServerOptions.of(log_info=False, log_warning=False, log_error=False, log_verbose=3, log_format="json")
    settings = LogSettings(info=False, warning=False, error=False, verbose_level=3, format="json")
    assert open_log(options).settings == settings


@pytest.mark.parametrize(("value", "lines"), [("0", 2), ("1", 1), ("", 1)])
def test_escaping_can_be_switched_off_by_tritons_variable(monkeypatch, capfd, value, lines):
    monkeypatch.setitem(os.environ, "TRITON_SERVER_ESCAPE_LOG_MESSAGES", value)
    log = open_log(ServerOptions.of())
    log.error("two\nlines")
    assert len(capfd.readouterr().err.splitlines()) == lines


def test_what_libraries_say_is_in_the_log():
    log, lines = kept_log(format="json")
    library, handler = logging.getLogger("charonia_test_library"), PythonLogging(log)
    library.addHandler(handler)
    library.info("no")
    library.warning("about %d", 7)
    try:
        raise ValueError("wrong")
    except ValueError:
        library.exception("failed")
    library.removeHandler(handler)
    about, failed = map(json.loads, lines.lines)
    assert (about["level"], about["message"]) == ("WARNING", "charonia_test_library: about 7")
    assert about["file"] == "test_logs.py"
    assert failed["level"] == "ERROR"
    assert failed["message"].startswith("charonia_test_library: failed\nTraceback")
    assert failed["message"].endswith("ValueError: wrong")


def record_of(library, text, *arguments):
    return logging.LogRecord(library, logging.WARNING, "library.py", 7, text, arguments, None)


def test_a_record_that_has_no_text_is_no_error_of_who_logs(capfd):
    log, lines = kept_log()
    PythonLogging(log).handle(record_of("library", "about %d", "seven"))
    assert lines.text == ""
    assert "about %d" in capfd.readouterr().err


def test_a_library_may_log_while_another_line_is_written():
    """As finalizers do, which run whenever garbage is collected."""

    class Interrupted(KeptLines):
        def write(self, data):
            if not self.text:
                self.text = "begun\n"
                handler.handle(record_of("library", "inside"))
            return super().write(data)

    lines = Interrupted()
    handler = PythonLogging(ServerLog(sink=lines))
    handler.handle(record_of("library", "outside"))
    assert [line.split()[-1] for line in lines.lines] == ["begun", 'inside"', 'outside"']


def test_the_log_is_the_only_lock():
    """Else who holds the log and comes to log by a library could wait for one who does the same from the other end."""
    log, lines = kept_log()
    handler = PythonLogging(log)
    handler.acquire()
    thread = threading.Thread(target=handler.handle, args=(record_of("library", "said"),), daemon=True)
    thread.start()
    thread.join(20)
    assert "library: said" in lines.text
    handler.release()
