"""The optional method `is_ready`: asked beside what the model executes, once at a time."""

import threading

import numpy as np
import pytest

from charonia.backends.python.readiness import ReadinessQuestion
from charonia.testing.log import kept_log

X = {"X": np.zeros(1, np.float32)}
PATIENCE_S = 20
CODE = """
import threading

class TritonPythonModel:
    def initialize(self, args):
        self.asked = 0
        self.go_on = threading.Event()

    def execute(self, requests):
        if requests[0].request_id() == "wait":
            pb_utils.Logger.log_info("executing")
            self.go_on.wait()
        if requests[0].request_id() == "go":
            self.go_on.set()
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([self.asked], np.float32))])]

    {method}
"""


def served_with(serve, *lines):
    return serve(CODE.replace("{method}", "\n        ".join(lines).replace("\n        def", "\n    def")))


@pytest.mark.parametrize(("value", "ready"), [("True", True), ("False", False)])
@pytest.mark.parametrize("method", ["def is_ready(self):", "async def is_ready(self):"])
def test_the_model_says_so(serve, method, value, ready):
    served = served_with(serve, method, f"return {value}")
    assert served.instance.tells_ready
    for _ in range(3):
        assert served.instance.ask_ready().result(PATIENCE_S) is ready
    assert served.call(**X)["Y"] == [0]


@pytest.mark.parametrize(
    ("line", "reason"),
    [("raise ValueError('not today')", "ValueError: not today"), ("return 1", "must return a bool, got int")],
)
def test_what_is_no_answer_is_no_and_told_to_the_log(serve, workshop, line, reason):
    served = served_with(serve, "def is_ready(self):", line)
    assert served.instance.ask_ready().result(PATIENCE_S) is False
    assert "is not ready: is_ready failed: " in workshop.log.wait_for(reason)
    assert served.call(**X)["Y"] == [0]


def test_it_is_asked_while_the_model_executes(serve, workshop):
    served = served_with(serve, "def is_ready(self):", "self.asked += 1", "self.go_on.set()", "return True")
    answered = []
    thread = threading.Thread(target=lambda: answered.append(served.run(X, id="wait").outputs()["Y"]))
    thread.start()
    workshop.log.wait_for("executing")
    assert served.instance.ask_ready().result(PATIENCE_S) is True
    thread.join(PATIENCE_S)
    assert answered == [[1]]


def test_who_asks_meanwhile_gets_the_same_answer(serve, workshop):
    served = served_with(
        serve,
        "def is_ready(self):",
        "self.asked += 1",
        "pb_utils.Logger.log_info('asked')",
        "self.go_on.wait()",
        "return True",
    )
    first = served.instance.ask_ready()
    workshop.log.wait_for("asked")
    assert served.instance.ask_ready() is first
    assert served.run(X, id="go").outputs()["Y"] == [1]
    assert first.result(PATIENCE_S) is True
    assert served.instance.ask_ready() is not first


def test_a_model_without_it_is_not_asked(serve):
    served = served_with(serve, "def other(self):", "return False")
    assert not served.instance.tells_ready


def test_a_process_that_dies_is_not_ready_and_the_next_one_is_asked(workshop):
    served = served_with(workshop.serve, "def is_ready(self):", "return True")
    life = served.instance._life
    life.child.kill()
    life.child.exited.wait(PATIENCE_S)
    assert life.readiness.ask().result(PATIENCE_S) is False
    assert served.call(**X)["Y"] == [0]
    assert served.instance.tells_ready
    assert served.instance.ask_ready().result(PATIENCE_S) is True


def test_a_question_that_cannot_be_put_is_answered_no_and_may_be_asked_again():
    ways = [RuntimeError("can't start new thread"), None]

    def put():
        if (error := ways.pop(0)) is not None:
            raise error

    log, lines = kept_log(verbose_level=1)
    question = ReadinessQuestion("model 'm' instance 'm_0'", put, log)
    assert question.ask().result(0) is False
    assert "can't start new thread" in lines.text
    again = question.ask()
    question.answered(True)
    assert again.result(0) is True
