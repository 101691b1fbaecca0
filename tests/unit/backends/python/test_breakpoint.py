"""`breakpoint()`: in an inline model a debugger in the terminal, passed over where there is none; in an isolated one an
error that says what to do. PYTHONBREAKPOINT counts in both."""

import os
import pty
import select
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from charonia.core.errors import CharoniaError

MODEL = """
class TritonPythonModel:
    def execute(self, requests):
        answer = 41
        breakpoint()
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([answer], np.float32))])]
"""


def test_without_a_terminal_it_is_passed_over_and_logged(workshop, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys, "breakpointhook", sys.__breakpointhook__)
    served = workshop.serve(MODEL, form="inline")
    assert served.call(X=np.zeros(1, np.float32))["Y"].tolist() == [41]
    assert "model.py:8" in workshop.log.wait_for("breakpoint() at")


def test_a_hook_of_the_users_own_is_called(workshop, monkeypatch):
    called = []
    monkeypatch.setattr(sys, "breakpointhook", lambda *args, **kwargs: called.append(args))
    served = workshop.serve(MODEL, form="inline")
    served.call(X=np.zeros(1, np.float32))
    assert called == [()]


def test_an_isolated_model_is_told_what_to_do(workshop):
    served = workshop.serve(MODEL)
    said = str(served.run({"X": np.zeros(1, np.float32)}).error())
    assert "model 'm" in said
    assert f"breakpoint() at {workshop.folder}/m/1/model.py:8 can't stop here" in said
    assert 'parameters { key: "execution" value { string_value: "inline" } }' in said
    assert "PYTHONBREAKPOINT" in said
    assert "BdbQuit" not in said
    assert served.instance.healthy


def test_so_is_one_that_stops_while_it_loads(workshop):
    with pytest.raises(CharoniaError, match=r"breakpoint\(\) at .*/model.py:4 can't stop here"):
        workshop.serve("breakpoint()\n" + MODEL)


@pytest.mark.parametrize("choice", ["debugging.stop", "0"])
def test_a_debugger_that_the_environment_names_is_called(workshop, form, choice, monkeypatch):
    monkeypatch.setenv("PYTHONBREAKPOINT", choice)
    monkeypatch.setattr(sys, "stdin", None)
    monkeypatch.setattr(sys, "breakpointhook", sys.__breakpointhook__)
    (workshop.folder / "debugging.py").write_text(
        "import sys\ndef stop():\n    sys._getframe(1).f_locals['seen'].append(42)\n"
    )
    monkeypatch.syspath_prepend(workshop.folder)
    monkeypatch.setenv("PYTHONPATH", str(workshop.folder))
    code = MODEL.replace("answer = 41", "seen = [41]").replace("[answer]", "seen[-1:]")
    served = workshop.serve(code, form=form)
    assert served.call(X=np.zeros(1, np.float32))["Y"].tolist() == [41 if choice == "0" else 42]
    sys.modules.pop("debugging", None)


def test_in_a_terminal_the_debugger_stops_in_the_model_and_others_serve_on(workshop):
    workshop.write(MODEL, "stopped")
    workshop.write(MODEL.replace("breakpoint()", ""), "other")
    program = textwrap.dedent(f"""
        import sys, threading
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        from pathlib import Path
        from conftest import Workshop, Served
        import numpy as np
        workshop = Workshop(Path({str(workshop.folder)!r}))
        stopped = Served(workshop.backend, workshop.context("stopped", form="inline"), 1)
        other = Served(workshop.backend, workshop.context("other", form="inline"), 1)
        x = np.zeros(1, np.float32)
        answers = []
        thread = threading.Thread(target=lambda: answers.append(stopped.call(X=x)["Y"][0]))
        thread.start()
        go = Path({str(workshop.folder)!r}, "go")
        with open(go) as pipe:       # opens when the test has seen the debugger's prompt
            pipe.read()
        print("other says", other.call(X=x)["Y"][0], flush=True)
        thread.join()
        print("stopped says", answers[0], flush=True)
    """)
    os.mkfifo(workshop.folder / "go")
    terminal, line = pty.openpty()
    process = subprocess.Popen([sys.executable, "-c", program], stdin=line, stdout=line, stderr=line)
    os.close(line)
    try:
        read_until(terminal, "(Pdb) ")
        os.write(terminal, b"p answer\n")
        read_until(terminal, "41(Pdb) ")
        (workshop.folder / "go").write_text("go")
        read_until(terminal, "other says 41.0")
        os.write(terminal, b"answer = 42\n")  # a line at a time: the debugger changes the terminal's mode in between
        read_until(terminal, "(Pdb) ")
        os.write(terminal, b"c\n")
        read_until(terminal, "stopped says 42.0")
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        os.close(terminal)


def read_until(terminal, text):
    """What the terminal shows up to `text`; line ends do not count: the echo puts some into a prompt."""
    shown = ""
    while text not in shown.replace("\r", "").replace("\n", ""):
        ready, _, _ = select.select([terminal], [], [], 30)
        assert ready, f"the terminal does not show {text!r}, but {shown!r}"
        try:
            shown += os.read(terminal, 4096).decode()
        except OSError:
            raise AssertionError(f"the program ended before it showed {text!r}: {shown}") from None
    return shown
