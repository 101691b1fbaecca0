"""`breakpoint()` in an inline model: a debugger in the terminal; passed over where there is none."""

import os
import pty
import select
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np

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
