"""Calls of other models by isolated models: many at once, back-pressure, and what a dead caller leaves."""

import threading

import numpy as np
import pytest

from charonia.backends.base import ServerFacts
from charonia.backends.python.calls import ProcessCalls
from charonia.backends.python.child import wire
from charonia.backends.python.child.devices import DeviceError
from charonia.backends.python.outgoing import OutgoingCalls
from charonia.core.errors import UnavailableError
from charonia.core.request import Reply
from charonia.core.tensor import Tensor
from charonia.testing.batch import make_batch
from charonia.testing.clock import ManualClock

PATIENCE_S = 20
HEAD = """
import asyncio, threading

def inner(x, model="other"):
    return pb_utils.InferenceRequest(model_name=model, requested_output_names=["Y"], inputs=[pb_utils.Tensor("X", x)])

def value(response):
    assert not response.has_error(), response.error().message()
    return response.output_tensors()[0].as_numpy()
"""


class Others:
    """A Submitter whose requests are answered by the test."""

    def __init__(self):
        self._arrived = threading.Condition()
        self.requests = []

    def submit(self, request):
        request.queue_start_ns = 1
        with self._arrived:
            self.requests.append(request)
            self._arrived.notify_all()

    submit_waiting = submit

    def take(self, count=1):
        """So many requests that have come, or come now."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: len(self.requests) >= count, PATIENCE_S), self.requests
            taken, self.requests = self.requests[:count], self.requests[count:]
        return taken


def reply(request, array=None, **options):
    outputs = [] if array is None else [Tensor.from_numpy("Y", np.asarray(array, np.float32), owned=True)]
    if options.get("final", True):
        request.settle()
    request.channel.send([Reply(request, outputs, **options)])


def echo(request, factor=2):
    reply(request, request.inputs["X"].numpy() * factor)


@pytest.fixture
def others():
    return Others()


@pytest.fixture
def caller(workshop, others):
    """Serve a model that may call others, in a process of its own."""

    def make(code, **options):
        context = workshop.context
        facts = ServerFacts(log=workshop.log, custom_metrics=workshop.metrics, submitter=others)

        def with_others(*arguments, **settings):
            made = context(*arguments, **settings)
            return type(made)(**{**{name: getattr(made, name) for name in made.__dataclass_fields__}, "server": facts})

        workshop.context = with_others
        return workshop.serve(HEAD + code, **options)

    return make


def running(served, batch):
    thread = threading.Thread(target=batch.run, args=(served.instance,))
    thread.start()
    return thread


def row(*values):
    return {"X": np.array(values, np.float32)}


FROM_THREADS = """
class TritonPythonModel:
    def execute(self, requests):
        x = requests[0].inputs()[0].as_numpy()
        found = [None] * 20

        def call(number):
            found[number] = float(value(inner(x + number).exec())[0])

        threads = [threading.Thread(target=call, args=(number,)) for number in range(20)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array(found, np.float32))])]
"""


def test_calls_from_threads_are_all_under_way_at_once(caller, others):
    served = caller(FROM_THREADS)
    batch = make_batch(row(1))
    thread = running(served, batch)
    requests = others.take(20)
    for request in reversed(requests):
        echo(request)
    thread.join(PATIENCE_S)
    assert batch.outputs()["Y"].tolist() == [2 * (1 + number) for number in range(20)]


def test_a_thread_that_waits_alone_makes_way_for_others(caller, others):
    """The first call is read by the thread that made it, until a second thread needs the answers too."""
    code = """
class TritonPythonModel:
    def execute(self, requests):
        x = requests[0].inputs()[0].as_numpy()

        def second():
            while not requests[0].is_cancelled():
                pass
            value(inner(x, "second").exec())
            value(inner(x, "third").exec())

        late = threading.Thread(target=second)
        late.start()
        answer = value(inner(x, "first").exec())
        late.join()
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", answer)])]
"""
    served = caller(code)
    batch = make_batch(row(5))
    thread = running(served, batch)
    (first,) = others.take()
    batch.requests[0].cancel()  # the sign for the second
    (second,) = others.take()
    echo(second)
    (third,) = others.take()  # so the second has its answer
    echo(third)
    echo(first, 4)
    thread.join(PATIENCE_S)
    assert batch.outputs()["Y"].tolist() == [20]


STREAM = """
class TritonPythonModel:
    def execute(self, requests):
        request = inner(requests[0].inputs()[0].as_numpy())
        responses = request.exec(decoupled=True)
        found = []
        for response in responses:
            found += [float(tensor.as_numpy().ravel()[0]) for tensor in response.output_tensors()]
            if len(found) == 1:
                pb_utils.Logger.log_info("the first")
                while not requests[0].is_cancelled():
                    pass
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array(found, np.float32))])]
"""


@pytest.mark.parametrize(("size", "least", "most"), [(1, 64, 80), (1_000_000, 2, 4)], ids=["small", "large"])
def test_what_the_caller_does_not_take_is_held_back(caller, others, workshop, size, least, most):
    served = caller(STREAM)
    batch = make_batch(row(1))
    thread = running(served, batch)
    (request,) = others.take()
    sent = 0
    while request.flow.has_room() and sent < 1000:
        reply(request, np.full(size, sent), final=False)
        sent += 1
    workshop.log.wait_for("the first")
    while request.flow.has_room() and sent < 1000:
        reply(request, np.full(size, sent), final=False)
        sent += 1
    assert least <= sent <= most
    room = threading.Event()
    request.flow.on_room(room.set)
    assert not room.is_set()
    batch.requests[0].cancel()  # the model goes on
    assert room.wait(PATIENCE_S)
    reply(request, has_response=False)
    thread.join(PATIENCE_S)
    assert batch.outputs()["Y"].tolist() == list(range(sent))
    assert served.instance._life.child.replies.region.size <= 64 * 2**20


def test_a_caller_that_dies_cancels_its_calls_and_frees_all(caller, others):
    code = """
class TritonPythonModel:
    def execute(self, requests):
        x = np.zeros(100_000, np.float32)
        calls = [threading.Thread(target=inner(x).exec) for _ in range(3)]
        [call.start() for call in calls]
        responses = inner(x).exec(decoupled=True)
        os._exit(1)
"""
    served = caller(code)
    life = served.instance._life
    batch = make_batch(row(1))
    thread = running(served, batch)
    requests = others.take(4)
    cancelled = threading.Semaphore(0)
    for request in requests:
        request.on_cancel(cancelled.release)
    (stream,) = [request for request in requests if request.takes_stream]
    reply(stream, np.zeros(100_000), final=False)
    thread.join(PATIENCE_S)
    assert "exited with code 1" in str(batch.error())
    for _ in requests:
        assert cancelled.acquire(timeout=PATIENCE_S)
    assert all(request.flow.has_room() for request in requests)
    for request in requests:  # answers that come too late go nowhere
        reply(request, np.zeros(3_000_000), final=True)
    assert len(life.link._open) == 0
    assert not life.calls._under_way


def test_a_killed_caller_with_an_async_call(caller, others):
    code = """
class TritonPythonModel:
    async def execute(self, requests):
        await asyncio.gather(*[inner(np.zeros(1, np.float32)).async_exec() for _ in range(5)])
"""
    served = caller(code, decoupled=True)
    batch = make_batch(row(1))
    batch.start(served.instance)
    requests = others.take(5)
    served.instance._life.child.kill()
    assert "SIGKILL" in str(batch.wait().error())
    done = threading.Event()
    requests[-1].on_cancel(done.set)
    assert done.wait(PATIENCE_S)


def test_errors_and_circles_are_told_and_ancestors_are_known(caller, others):
    code = """
class TritonPythonModel:
    def execute(self, requests):
        response = inner(np.zeros(1, np.float32)).exec()
        error = pb_utils.TritonError(response.error().message(), response.error().code())
        return [pb_utils.InferenceResponse(error=error)] * len(requests)
"""
    served = caller(code)
    batch = make_batch(row(1), row(1))
    batch.requests[0].ancestors = ("a", "b")
    batch.requests[1].ancestors = ("c", "b")
    thread = running(served, batch)
    (request,) = others.take()
    assert request.ancestors == ("a", "b", "c", "m")
    reply(request, error=UnavailableError("not today"))
    thread.join(PATIENCE_S)
    assert "not today" in str(batch.error())


class BrokenMemory:
    """A DeviceBuffer that nobody can read."""

    device, nbytes, owned, address = "gpu:0", 4, True, 0

    def host(self):
        raise DeviceError("the device has fallen off the bus")

    def handle(self):
        return None


@pytest.mark.parametrize("final", [True, False])
def test_outputs_that_can_not_be_read_are_an_error_response(caller, others, form, final):
    code = """
class TritonPythonModel:
    def execute(self, requests):
        call = pb_utils.InferenceRequest(
            model_name="other",
            requested_output_names=["Y"],
            inputs=requests[0].inputs(),
            preferred_memory=pb_utils.PreferredMemory(pb_utils.TRITONSERVER_MEMORY_CPU),
        )
        texts = [each.error().message() for each in call.exec(decoupled=True) if each.has_error()]
        return [pb_utils.InferenceResponse(error=pb_utils.TritonError("|".join(texts)))]
"""
    served = caller(code, form=form)
    batch = make_batch(row(1))
    thread = running(served, batch)
    (request,) = others.take()
    if final:
        request.settle()
    request.channel.send([Reply(request, [Tensor("Y", "FP32", (1,), BrokenMemory())], final=final)])
    if not final:
        reply(request, has_response=False)
    thread.join(PATIENCE_S)
    told = "the outputs of model 'other' can't be handed on: DeviceError: the device has fallen off the bus"
    assert str(batch.error()).endswith(told)


def test_inputs_that_are_passed_on_stay_where_they_are(caller, others):
    code = """
class TritonPythonModel:
    def execute(self, requests):
        response = inner(requests[0].inputs()[0].as_numpy()).exec()
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", value(response))])]
"""
    served = caller(code)
    array = np.arange(200_000, dtype=np.float32)
    for _ in range(5):
        batch = make_batch({"X": array})
        thread = running(served, batch)
        (request,) = others.take()
        np.testing.assert_array_equal(request.inputs["X"].numpy(), array)
        echo(request)
        del request
        thread.join(PATIENCE_S)
        np.testing.assert_array_equal(batch.outputs()["Y"], array * 2)
    assert served.instance._life.child.outputs.size <= 8 * 2**20
    assert served.instance._life.child.replies.region.size <= 8 * 2**20


INFER = (("other", -1, "", 0, 0, 0, 0, None, (), False, 0, False), [], (), ())


class Posted(list):
    """An Outbox that keeps what it gets."""

    def post(self, kind, correlation, meta, payload=()):
        self.append((kind, correlation, meta))


def test_a_cancellation_may_come_before_its_call():
    others = Others()
    calls = ProcessCalls(OutgoingCalls("m", others, ManualClock()), Posted(), None, lambda *_: [], tuple)
    assert calls.frame(wire.Frame(wire.CANCEL, 7, None, bytearray()))
    for number in (7, 8):
        calls.begin(wire.Frame(wire.INFER, number, INFER, bytearray()), waits=True)
    assert [request.cancelled for request in others.take(2)] == [True, False]


def test_a_call_whose_inputs_can_not_be_read_fails_and_keeps_nobody_waiting():
    def unreadable(columns, payload):
        raise OSError("no such memory")

    posted = Posted()
    calls = ProcessCalls(OutgoingCalls("m", Others(), ManualClock()), posted, None, unreadable, tuple)
    calls.begin(wire.Frame(wire.INFER, 7, INFER, bytearray()))
    ((kind, number, ((final, (_, text), *_),)),) = posted
    assert (kind, number, final) == (wire.REPLIES, 7, True)
    assert "can't be read: OSError: no such memory" in text
