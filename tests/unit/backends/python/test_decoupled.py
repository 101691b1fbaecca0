"""Decoupled models: responses by senders, from any thread, in order, to the end."""

import gc
import os
import threading
from functools import partial

import numpy as np
import pytest

from charonia.backends.python.child.responding import WINDOW
from charonia.core.errors import BackendError, InvalidArgumentError
from charonia.core.room import Room
from charonia.testing.batch import KeptBatch, make_batch

COUNT = """
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for number in range(int(request.inputs()[0].as_numpy()[0])):
                tensor = pb_utils.Tensor("Y", np.array([number], np.float32))
                sender.send(pb_utils.InferenceResponse([tensor]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def row(number):
    return {"X": np.array([number], np.float32)}


def numbers(batch, index=0):
    """The values of the responses to one request; errors as their text."""
    return [
        str(reply.error) if reply.error is not None else reply.outputs[0].numpy().tolist()[0]
        for reply in batch.responses[index]
    ]


class LastElements(KeptBatch):
    """Looks at the last element of each output and lets go of it."""

    def __init__(self, requests):
        super().__init__(requests)
        self.elements = []

    def respond(self, request, outputs, parameters=None, final=True):
        self.elements.append(outputs[0].numpy()[-1])
        super().respond(request, (), final=final)


@pytest.fixture
def decoupled(serve):
    """Serve a decoupled model in one form and then in the other."""
    return partial(serve, decoupled=True)


@pytest.fixture
def isolated(workshop):
    return partial(workshop.serve, decoupled=True)


def test_any_number_of_responses_in_order(decoupled):
    served = decoupled(COUNT)
    batch = served.run(row(3), row(0), row(200))
    assert [numbers(batch, index) for index in range(3)] == [[0, 1, 2], [], list(range(200))]
    assert not any(answer.has_response for answer in batch.answers)


def test_the_last_response_may_carry_the_final_flag(decoupled):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            for request in requests:
                y = pb_utils.Tensor("Y", np.zeros(1, np.float32))
                response = pb_utils.InferenceResponse([y], parameters={"p": 1})
                request.get_response_sender().send(response, pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
    """
    batch = decoupled(code).run(row(1), row(2))
    assert [(reply.final, reply.has_response, reply.parameters) for reply in batch.answers] == [
        (True, True, {"p": 1})
    ] * 2


def test_responses_long_after_execute_has_returned_and_another_batch_meanwhile(decoupled):
    code = """
    import threading

    class TritonPythonModel:
        def initialize(self, args):
            self.kept = []

        def execute(self, requests):
            if requests[0].request_id() == "go":
                for sender in self.kept:
                    threading.Thread(target=self.answer, args=(sender,)).start()
            self.kept += [request.get_response_sender() for request in requests]
            if requests[0].request_id() == "go":
                self.answer(self.kept.pop())

        def answer(self, sender):
            for number in range(5):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([number], np.float32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
    """
    served = decoupled(code)
    first = make_batch(row(0), row(0))
    first.start(served.instance)
    assert first.answers == [None, None]
    second = served.run(row(0), id="go")
    assert numbers(second) == [0, 1, 2, 3, 4]
    first.wait()
    assert [numbers(first, index) for index in range(2)] == [[0, 1, 2, 3, 4]] * 2


def test_errors_are_responses_and_do_not_end_a_request(decoupled):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            sender = requests[0].get_response_sender()
            sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("one", pb_utils.TritonError.INVALID_ARG)))
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([2], np.float32))]))
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([2], np.float64))]))
            error = pb_utils.InferenceResponse(error=pb_utils.TritonError("three"))
            sender.send(error, pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
    """
    batch = decoupled(code).run(row(0))
    found = numbers(batch)
    assert found[:2] == ["one", 2]
    assert "FP64" in found[2]
    assert found[3:] == ["three"]
    assert isinstance(batch.responses[0][0].error, InvalidArgumentError)
    assert [reply.final for reply in batch.responses[0]] == [False, False, False, True]


def test_sending_after_the_end_raises_in_the_model_and_nothing_else_happens(decoupled):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            sender = requests[0].get_response_sender()
            response = pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.zeros(1, np.float32))])
            raised = []
            for arguments in ((None, 0), (response, 5), ("text", 0)):
                try:
                    sender.send(*arguments)
                except (pb_utils.TritonModelException, TypeError) as error:
                    raised.append(str(error))
            sender.send(response, pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            for arguments in ((response, 0), (None, 1)):
                try:
                    sender.send(*arguments)
                except pb_utils.TritonModelException as error:
                    raised.append(str(error))
            print(raised)
            assert len(raised) == 5 and "closed" in raised[-1], raised
    """
    served = decoupled(code)
    for _ in range(2):
        batch = served.run(row(0))
        assert numbers(batch) == [0]


def test_execute_that_raises_fails_what_has_not_ended_behind_what_was_sent(decoupled):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            for number, request in enumerate(requests):
                if number == 2:
                    raise ValueError("broken")
                self.sender = request.get_response_sender()
                y = pb_utils.Tensor("Y", np.array([number], np.float32))
                self.sender.send(pb_utils.InferenceResponse([y]), 1 - number)
    """
    batch = decoupled(code).run(row(0), row(0), row(0))
    assert numbers(batch, 0) == [0]
    first, text = numbers(batch, 1)
    assert first == 1
    assert "broken" in text
    assert "broken" in numbers(batch, 2)[0]


def test_a_list_is_refused(decoupled):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            return [pb_utils.InferenceResponse([])]
    """
    assert "must return None" in str(decoupled(code).run(row(0)).error())


@pytest.mark.parametrize("what", ["request", "sender after one", "request in a cycle"])
def test_a_request_that_the_model_lets_go_of_fails(decoupled, what):
    code = f"""
    import gc

    class TritonPythonModel:
        def execute(self, requests):
            if {what!r} == "sender after one":
                requests[0].get_response_sender().send(
                    pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.zeros(1, np.float32))]))
            if {what!r} == "request in a cycle":
                cycle = [requests[0].get_response_sender()]
                cycle.append(cycle)
                del cycle
                requests.clear()
                gc.collect()
    """
    batch = decoupled(code).run(row(0))
    assert str(batch.error()).startswith(
        "execute of model 'm', which is decoupled, returned without taking the request's response sender: "
        if what == "request"
        else "model 'm' has let go of the request's response sender without TRITONSERVER_RESPONSE_COMPLETE_FINAL, "
    )


def test_a_request_that_is_kept_beyond_execute_may_take_its_sender_later(decoupled):
    code = """
    class TritonPythonModel:
        kept = None

        def execute(self, requests):
            if self.kept is not None:
                self.kept.get_response_sender()
            self.kept = requests[0] if self.kept is None else None
    """
    served = decoupled(code)
    batches = [make_batch(row(0)), make_batch(row(1))]
    for batch in batches:
        batch.start(served.instance)
    assert "has let go of" in str(batches[0].wait().error())
    assert "without taking" in str(batches[1].wait().error())


@pytest.mark.parametrize("streams", [True, False])
def test_what_a_model_keeps_until_it_is_unloaded_is_told_so(serve, streams):
    code = """
    class TritonPythonModel:
        def initialize(self, args):
            self.senders = []

        def execute(self, requests):
            self.senders += [request.get_response_sender() for request in requests]
            return RETURNED
    """.replace("RETURNED", "None" if streams else "[None] * len(requests)")
    served = serve(code, decoupled=streams)
    batch = make_batch(row(0), row(1))
    batch.start(served.instance)
    served.unload()
    batch.wait()
    for index in range(2):
        assert str(batch.error(index)) == (
            "the instance of model 'm' that had the request was unloaded before it sent the last response"
        )


def test_coroutines_run_beside_one_another(decoupled):
    code = """
    import asyncio

    class TritonPythonModel:
        def initialize(self, args):
            self.event = None

        async def execute(self, requests):
            self.event = self.event or asyncio.Event()
            sender = requests[0].get_response_sender()
            how = requests[0].request_id()
            if how == "raise":
                raise ValueError("in a coroutine")
            if how == "set":
                self.event.set()
            await self.event.wait()
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.ones(1, np.float32))]), 1)
    """
    served = decoupled(code)
    waiting = [make_batch(row(0)) for _ in range(3)]
    for batch in waiting:
        batch.start(served.instance)
    assert "in a coroutine" in str(served.run(row(0), id="raise").error())
    assert numbers(served.run(row(0), id="set")) == [1]
    for batch in waiting:
        assert numbers(batch.wait()) == [1]


def test_a_reader_that_is_behind_holds_the_model_up(isolated):
    served = isolated(COUNT)
    flow = Room()
    flow.has_room = lambda: False
    listeners = []
    flow.on_room = listeners.append
    batch = make_batch(row(1000), flow=flow)
    thread = threading.Thread(target=batch.start, args=(served.instance,))
    thread.start()
    batch.wait(WINDOW)
    assert len(batch.responses[0]) == WINDOW
    listeners.pop()()
    batch.wait(WINDOW + WINDOW // 2)
    assert thread.is_alive()
    batch.requests[0].cancel()
    thread.join(20)
    assert not thread.is_alive()
    assert len(numbers(batch.wait())) == 1000


def test_cancelling_is_seen_by_requests_and_senders(decoupled):
    code = """
    import threading, time

    class TritonPythonModel:
        def execute(self, requests):
            threading.Thread(target=self.answer, args=(requests[0],)).start()

        def answer(self, request):
            sender = request.get_response_sender()
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.zeros(1, np.float32))]))
            while not (request.is_cancelled() and sender.is_cancelled()):
                time.sleep(0.001)
            sender.send(pb_utils.InferenceResponse(error=pb_utils.TritonError("c", pb_utils.TritonError.CANCELLED)), 1)
    """
    served = decoupled(code)
    batch, other = make_batch(row(0)), make_batch(row(0))
    batch.start(served.instance)
    other.start(served.instance)
    batch.wait(1)
    batch.requests[0].cancel()
    assert numbers(batch.wait()) == [0, "c"]
    assert other.answers == [None]
    other.requests[0].cancel()
    other.wait()


def test_what_a_dead_process_had_open_fails_at_once(isolated):
    code = (
        COUNT.replace("def execute", "def answer")
        + """
    def execute(self, requests):
        if requests[0].request_id() == "die":
            os._exit(3)
        if requests[0].request_id() == "count":
            return self.answer(requests)
        self.kept = requests
        y = pb_utils.Tensor("Y", np.zeros(1, np.float32))
        requests[0].get_response_sender().send(pb_utils.InferenceResponse([y]))
"""
    )
    served = isolated(code)
    batch = make_batch(row(0))
    batch.start(served.instance)
    died = served.run(row(0), id="die")
    assert isinstance(died.error(), BackendError)
    assert "exited with code 3" in str(died.error())
    assert numbers(batch.wait())[0] == 0
    assert "exited with code 3" in numbers(batch)[1]
    assert numbers(served.run(row(3), id="count")) == [0, 1, 2]


def test_large_responses_go_by_shared_memory_that_is_used_again(isolated):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            x = requests[0].inputs()[0].as_numpy()
            sender = requests[0].get_response_sender()
            for number in range(200):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x + number)]))
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)]), 1)
    """
    served = isolated(code)
    array = np.zeros(100_000, np.float32)
    for _ in range(3):
        batch = LastElements(make_batch({"X": array}).requests)
        batch.run(served.instance)
        assert batch.elements == [*range(200), 0]
    link = served.instance._life.link
    assert served.instance._life.child.outputs.size <= 32 * 2**20
    assert len(link._open) == 0


def test_strings_and_absent_outputs(decoupled):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            sender = requests[0].get_response_sender()
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array(["ä", b"b"], object))]))
            sender.send(pb_utils.InferenceResponse([]), 1)
    """
    batch = decoupled(code, outputs="Y:TYPE_STRING:-1").run(row(0))
    assert batch.responses[0][0].outputs[0].numpy().tolist() == ["ä".encode(), b"b"]
    assert batch.responses[0][1].outputs == []


def test_a_plain_model_may_answer_by_its_sender_after_execute(serve):
    code = """
    import threading

    class TritonPythonModel:
        def execute(self, requests):
            threading.Thread(target=self.answer, args=([r.get_response_sender() for r in requests[1:]],)).start()
            first = pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.zeros(1, np.float32))])
            return [first] + [None] * (len(requests) - 1)

        def answer(self, senders):
            for sender in senders[:-1]:
                response = pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.ones(1, np.float32))])
                sender.send(response)
                try:
                    sender.send(response)
                except pb_utils.TritonModelException as error:
                    assert "more than one" in str(error)
                sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
    """
    served = serve(code)
    batch = served.run(row(0), row(1), row(2), row(3))
    assert [numbers(batch, index) for index in range(3)] == [[0], [1], [1]]
    assert "returned no response (None)" in str(batch.error(3))


def test_many_streams_leave_nothing_behind(isolated):
    served = isolated(COUNT)
    rows = [row(number % 4) for number in range(50)]
    served.run(*rows)
    link, pid = served.instance._life.link, served.instance._life.child.popen.pid

    def resident():
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1])

    for _ in range(20):
        served.run(*rows)
    gc.collect()
    before, files = resident(), len(os.listdir("/proc/self/fd"))
    for _ in range(200):
        served.run(*rows)
    gc.collect()
    assert resident() - before < 500  # pages
    assert len(os.listdir("/proc/self/fd")) <= files
    assert len(link._open) == 0
    assert not any(link._open._flags)


def test_a_reader_that_is_behind_holds_an_inline_model_up(workshop):
    served = workshop.serve(COUNT, decoupled=True, form="inline")
    flow = Room()
    batch = make_batch(row(3), flow=flow)
    asked = threading.Event()
    listeners = []

    def on_room(listener):
        listeners.append(listener)
        asked.set()

    flow.has_room = lambda: False
    flow.on_room = on_room
    thread = threading.Thread(target=batch.start, args=(served.instance,))
    thread.start()
    assert asked.wait(20)
    assert numbers(batch) == [0]  # the first needs no room
    asked.clear()
    listeners.pop()()
    assert asked.wait(20)
    assert numbers(batch) == [0, 1]
    flow.has_room = lambda: True
    listeners.pop()()
    thread.join(20)
    assert numbers(batch.wait()) == [0, 1, 2]


def test_an_inline_model_hears_of_sequences_that_ended_between_its_batches(workshop):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", r.inputs()[0].as_numpy())]) for r in requests]

        def sequence_ended(self, correlation_id, reason):
            if reason == "cancelled":
                raise ValueError("not of interest")
            pb_utils.Logger.log_info(f"over: {correlation_id!r} {reason}")
    """
    served = workshop.serve(code, form="inline")
    served.instance.sequence_ended("s", "idle")
    workshop.log.wait_for("over: 's' idle")
    served.instance.sequence_ended(7, "cancelled")
    assert "sequence_ended failed: ValueError: not of interest" in workshop.log.wait_for("not of interest")


def test_a_slow_reader_does_not_hold_an_event_loop_up_for_ever(workshop):
    code = """
    import asyncio
    import sys

    class TritonPythonModel:
        async def execute(self, requests):
            responding = next(m for name, m in sys.modules.items() if name.endswith(".responding"))
            responding._LOOP_WINDOW, responding._LOOP_WAIT_S = 40, 0.01
            sender = requests[0].get_response_sender()
            try:
                for number in range(100):
                    sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([number], np.float32))]))
            except pb_utils.TritonModelException as error:
                pb_utils.Logger.log_info(f"held up: {error}")
                raise
    """
    served = workshop.serve(code, decoupled=True)
    flow = Room()
    flow.has_room = lambda: False
    flow.on_room = lambda listener: None
    batch = make_batch(row(0), flow=flow)
    batch.run(served.instance)
    assert len(batch.responses[0]) == 41
    assert "would hold the event loop up" in str(batch.error())
