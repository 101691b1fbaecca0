"""The optional method `sequence_ended` of isolated models: between batches, whatever the process is doing."""

import threading

import numpy as np

from charonia.testing.batch import make_batch

X = {"X": np.zeros(1, np.float32)}
CODE = """
class TritonPythonModel:
    def initialize(self, args):
        self.ended = []

    def execute(self, requests):
        if requests[0].request_id() == "wait":
            pb_utils.Logger.log_info("executing")
            before = len(self.ended)
            while not requests[0].is_cancelled():
                pass
            assert len(self.ended) == before
        if requests[0].request_id() == "forget":
            self.ended.clear()
        response = pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([len(self.ended)], np.float32))])
        response._parameters = {"last": str(self.ended[-1:])}
        return [response]

    def sequence_ended(self, correlation_id, reason):
        if correlation_id == 13:
            raise ValueError("unlucky")
        self.ended.append((correlation_id, reason))
"""


def test_the_hook_is_called_between_batches(workshop):
    served = workshop.serve(CODE)
    served.instance.sequence_ended(7, "idle")
    served.instance.sequence_ended(13, "idle")
    served.instance.sequence_ended("text", "cancelled")
    batch = served.run(X)
    assert batch.outputs()["Y"] == [2]
    assert batch.answers[0].parameters == {"last": "[('text', 'cancelled')]"}
    assert "ValueError: unlucky" in workshop.log.wait_for("sequence_ended failed")


def test_more_ends_than_the_socket_takes_wait_until_the_batch_is_answered(workshop):
    served = workshop.serve(CODE)
    batch = make_batch(X, id="wait")
    thread = threading.Thread(target=batch.run, args=(served.instance,))
    thread.start()
    workshop.log.wait_for("executing")
    for number in range(20_000):
        served.instance.sequence_ended(f"a sequence with a long name {number}", "idle")
    batch.requests[0].cancel()
    thread.join(20)
    assert served.call(**X)["Y"] == [20_000]


def test_a_model_without_it_is_left_in_peace(workshop):
    served = workshop.serve(CODE.replace("def sequence_ended", "def other"))
    served.instance.sequence_ended(7, "idle")
    assert served.call(**X)["Y"] == [0]


def test_a_dead_process_is_not_told(workshop):
    served = workshop.serve(CODE)
    served.instance._life.child.kill()
    served.instance._life.child.exited.wait(20)
    served.instance.sequence_ended(7, "idle")
    assert served.call(**X)["Y"] == [0]
