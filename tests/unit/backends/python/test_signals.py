"""Signals that stop a service: a model's process leaves them to the server, and what a model starts does not."""

import os
import signal

import numpy as np
import pytest

X = {"X": np.zeros(1, np.float32)}
MODEL = """
import multiprocessing, signal, subprocess

PROGRAM = "import sys, time; print('up', flush=True); time.sleep(600)"

def signals_itself():
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(os.getpid(), number)
    return 1

def ends_a_program():
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stdout=subprocess.PIPE) as program:
        program.stdout.readline()
        program.terminate()
        return program.wait()

def ends_a_program_as_ctrl_c_does():
    program = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as program:
        program.stdout.readline()
        program.send_signal(signal.SIGINT)
        return program.wait()

def ends_a_worker():
    worker = multiprocessing.get_context("fork").Process(target=signal.pause)
    worker.start()
    worker.terminate()
    worker.join()
    return worker.exitcode

def ends_a_pool():
    with multiprocessing.get_context("fork").Pool(2) as pool:
        return pool.apply(int, ("7",))

def has_a_handler_of_its_own():
    heard = []
    signal.signal(signal.SIGTERM, lambda number, frame: heard.append(number))
    os.kill(os.getpid(), signal.SIGTERM)
    return heard[0]

class TritonPythonModel:
    def execute(self, requests):
        answer = np.array([globals()[requests[0].request_id()]()], np.float32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", answer)])]
"""


@pytest.mark.parametrize(
    ("what", "answer"),
    [
        ("signals_itself", 1),
        ("ends_a_program", -signal.SIGTERM),
        ("ends_a_program_as_ctrl_c_does", -signal.SIGINT),
        ("ends_a_worker", -signal.SIGTERM),
        ("ends_a_pool", 7),
        ("has_a_handler_of_its_own", signal.SIGTERM),
    ],
)
def test_what_a_signal_ends(workshop, what, answer):
    assert workshop.serve(MODEL).run(X, id=what).outputs()["Y"].tolist() == [answer]


def test_a_signal_while_the_process_waits_for_a_request(workshop):
    served = workshop.serve(MODEL)
    pid = served.instance._life.child.popen.pid
    for number in (signal.SIGTERM, signal.SIGINT):
        os.kill(pid, number)
    assert served.run(X, id="signals_itself").outputs()["Y"].tolist() == [1]
    assert served.instance._life.child.popen.pid == pid
