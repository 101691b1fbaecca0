"""`pb_utils.Logger`: what it takes, and what becomes of a message that the server can't take."""

import socket
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from charonia.backends.python.child import wire
from charonia.backends.python.supervisor import Supervisor

X = {"X": np.zeros(1, np.float32)}


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("log('x', None)", "must be one of INFO, WARNING, ERROR, VERBOSE, got None"),
        ("log('x', 1)", "must be one of INFO, WARNING, ERROR, VERBOSE, got 1"),
        ("log('x', 'DEBUG')", "must be one of INFO, WARNING, ERROR, VERBOSE, got 'DEBUG'"),
        ("log(None)", "must be a str, got NoneType"),
        ("log_info(None)", "must be a str, got NoneType"),
        ("log_warn(7)", "must be a str, got int"),
        ("log_error(None)", "must be a str, got NoneType"),
        ("log_verbose(None)", "must be a str, got NoneType"),
    ],
)
def test_wrong_arguments_raise_in_the_model(serve, workshop, call, text):
    code = f"""
    class TritonPythonModel:
        def execute(self, requests):
            try:
                pb_utils.Logger.{call}
            except TypeError as error:
                return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([str(error)], object))])]
    """
    assert text in serve(code, outputs="Y:TYPE_STRING:1").call(**X)["Y"][0].decode()
    assert workshop.log.records == []


def test_text_of_numpy_and_levels_by_name_are_taken(serve, workshop):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            pb_utils.Logger.log(np.str_("of numpy"), pb_utils.Logger.WARNING)
            pb_utils.Logger.log("plain")
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.zeros(1, np.float32))])]
    """
    serve(code).call(**X)
    workshop.log.wait_for("plain")
    assert workshop.log.records == [("WARNING", "of numpy", "model.py"), ("INFO", "plain", "model.py")]


class Owner:
    """Refuses one message; `heard` gets the others."""

    def __init__(self):
        self.heard = []
        self.last = threading.Event()

    def on_event(self, child, frame):
        if frame.meta == "bad":
            raise ValueError("no such level")
        self.heard.append(frame.meta)
        if frame.meta == "last":
            self.last.set()

    def on_quiet(self, child):
        pass

    on_exit = on_quiet


def test_what_comes_behind_a_message_that_can_not_be_taken_is_heard_at_once(workshop):
    here, there = socket.socketpair()
    child = SimpleNamespace(
        name="m_0",
        events=wire.Channel(here),
        popen=SimpleNamespace(pid=-1, wait=lambda: 0),
        work=SimpleNamespace(shutdown=lambda: None),
        outbox=SimpleNamespace(close=lambda: None),
        kill_group=lambda: None,
        exited=threading.Event(),
    )
    speaker = wire.Channel(there)
    for text in ("first", "bad", "last"):  # all there before the supervisor looks: it reads them in one go
        speaker.send(wire.LOG, 0, text)
    owner = Owner()
    supervisor = Supervisor(workshop.log)
    supervisor.watch(child, owner)
    assert owner.last.wait(20)
    assert owner.heard == ["first", "last"]
    message = workshop.log.wait_for("can't be taken")
    assert "instance 'm_0'" in message
    assert "ValueError: no such level" in message
    speaker.close()
    assert child.exited.wait(20)
    supervisor.close()
