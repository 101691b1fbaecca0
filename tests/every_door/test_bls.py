"""Models that call other models, through every door and in both forms: each way to call, and how calls fail."""

import numpy as np
import pytest

from charonia.core.errors import InvalidArgumentError
from tests.every_door.doors import RefusedError
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_python_model

FORMS = ("isolated", "inline")
HEAD = """
import asyncio
import json
import threading
import numpy as np
import triton_python_backend_utils as pb_utils

def given(thing):
    return thing.inputs()[0].as_numpy()

def answer(array, **more):
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.asarray(array, np.float32))], **more)

def passed_on(response):
    error = pb_utils.TritonError(response.error().message(), response.error().code())
    return pb_utils.InferenceResponse(error=error)

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL
"""
DOUBLE = """
class TritonPythonModel:
    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        if (given(request) < 0).any():
            error = pb_utils.TritonError("I take nothing below zero", pb_utils.TritonError.INVALID_ARG)
            return pb_utils.InferenceResponse(error=error)
        return answer(given(request) * 2, parameters={"told": request.parameters(), "id": request.request_id()})
"""
# As many responses as the input says, from a thread; the last one bare.
COUNT = """
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            number, sender = int(given(request).ravel()[0]), request.get_response_sender()
            threading.Thread(target=self.send, args=(number, sender)).start()

    def send(self, number, sender):
        for index in range(number):
            sender.send(answer([[index]]))
        sender.send(flags=FINAL)
"""
# Calls in the way that the request's parameter "way" names.
CALLER = """
class TritonPythonModel:
    def initialize(self, args):
        self.form = args["model_name"].split("_")[1]
        self.name = args["model_name"]

    async def execute(self, requests):
        return await asyncio.gather(*[self.one(request) for request in requests])

    async def one(self, request):
        said = json.loads(request.parameters())
        return await getattr(self, said["way"])(request, said)

    def inner(self, model, tensors, **more):
        return pb_utils.InferenceRequest(
            model_name=f"{model}_{self.form}", requested_output_names=["OUT"], inputs=tensors, **more
        )

    async def async_exec(self, request, said):
        response = await self.inner("double", request.inputs()).async_exec()
        return passed_on(response) if response.has_error() else answer(response.output_tensors()[0].as_numpy())

    async def exec(self, request, said):
        return await asyncio.get_running_loop().run_in_executor(None, self.in_thread, request)

    def in_thread(self, request):
        response = self.inner("double", request.inputs()).exec()
        return passed_on(response) if response.has_error() else answer(response.output_tensors()[0].as_numpy())

    async def blocking(self, request, said):
        return self.in_thread(request)

    async def many(self, request, said):
        calls = [self.inner("double", [pb_utils.Tensor("IN", given(request) + n)]).async_exec() for n in range(50)]
        responses = await asyncio.gather(*calls)
        return answer(sum(response.output_tensors()[0].as_numpy() for response in responses))

    async def stream(self, request, said):
        found = []
        async for response in await self.inner("count", request.inputs()).async_exec(decoupled=True):
            found += [tensor.as_numpy()[0, 0] for tensor in response.output_tensors()]
        return answer([found])

    async def stream_blocking(self, request, said):
        responses = self.inner("count", request.inputs()).exec(decoupled=True)
        found = [len(response.output_tensors()) for response in responses]
        assert found == [len(response.output_tensors()) for response in responses], "the second time"
        return answer([found])

    async def plain_call_of_decoupled(self, request, said):
        return passed_on(await self.inner("count", request.inputs()).async_exec())

    async def stream_of_plain(self, request, said):
        responses = list(await self.inner("double", request.inputs()).async_exec(decoupled=True))
        assert len(responses) == 1
        return answer(responses[0].output_tensors()[0].as_numpy())

    async def carried(self, request, said):
        inner = self.inner("double", request.inputs(), parameters={"word": "w", "n": 3, "yes": True}, request_id="i")
        parameters = json.loads((await inner.async_exec()).parameters())
        assert json.loads(parameters["told"]) == {"word": "w", "n": 3, "yes": True}
        assert parameters["id"] == "i"
        return answer([[1]])

    async def nowhere(self, request, said):
        return passed_on(await self.inner("nowhere", request.inputs()).async_exec())

    async def version(self, request, said):
        return passed_on(await self.inner("double", request.inputs(), model_version=7).async_exec())

    async def itself(self, request, said):
        return passed_on(await self.inner("caller", request.inputs()).async_exec())

    async def itself_from_a_thread(self, request, said):
        found = []
        thread = threading.Thread(target=lambda: found.append(self.inner("caller", request.inputs()).exec()))
        thread.start()
        await asyncio.get_running_loop().run_in_executor(None, thread.join)
        return passed_on(found[0])

    async def no_input(self, request, said):
        return passed_on(await self.inner("double", []).async_exec())

    async def cancelled(self, request, said):
        inner = self.inner("waits", request.inputs())
        begun = inner.async_exec()
        inner.cancel()
        return passed_on(await begun)

    async def stream_cancelled(self, request, said):
        responses = await self.inner("endless", request.inputs()).async_exec(decoupled=True)
        next(responses)
        responses.cancel()
        *_, last = responses
        return passed_on(last) if last.has_error() else answer([[len(last.output_tensors())]])

    async def stream_dropped(self, request, said):
        responses = await self.inner("endless", request.inputs()).async_exec(decoupled=True)
        del responses
        return answer([[1]])
"""
# Three in a row, each a plain execute.
CHAIN = """
class TritonPythonModel:
    def initialize(self, args):
        name, self.form = args["model_name"].split("_")
        self.next = {"first": "second", "second": "third", "third": "double"}[name]

    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        inner = pb_utils.InferenceRequest(
            model_name=f"{self.next}_{self.form}", requested_output_names=["OUT"], inputs=request.inputs()
        )
        response = inner.exec()
        if response.has_error():
            return passed_on(response)
        return answer(response.output_tensors()[0].as_numpy() + 1)
"""
# Answers only when it is cancelled.
WAITS = """
class TritonPythonModel:
    async def execute(self, requests):
        while not all(request.is_cancelled() for request in requests):
            await asyncio.sleep(0.01)
        error = pb_utils.TritonError("cancelled", pb_utils.TritonError.CANCELLED)
        return [pb_utils.InferenceResponse(error=error) for request in requests]
"""
# Sends until it is cancelled.
ENDLESS = """
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            threading.Thread(target=self.send, args=(request.get_response_sender(),)).start()

    def send(self, sender):
        while not sender.is_cancelled():
            sender.send(answer([[1]]))
        sender.send(flags=FINAL)
"""
# Calls itself as many times as the input says, one inside the other.
NESTED = """
class TritonPythonModel:
    def initialize(self, args):
        self.name = args["model_name"]

    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        depth = given(request)
        if depth.item() == 0:
            return answer(depth)
        call = pb_utils.InferenceRequest(
            model_name=self.name, inputs=[pb_utils.Tensor("IN", depth - 1)], requested_output_names=["OUT"]
        )
        response = call.exec()
        if response.has_error():
            return passed_on(response)
        return answer(pb_utils.get_output_tensor_by_name(response, "OUT").as_numpy() + 1)
"""
INSTANCES = {"nested": 3}
MODELS = {
    "double": DOUBLE,
    "nested": NESTED,
    "count": COUNT,
    "caller": CALLER,
    "first": CHAIN,
    "second": CHAIN,
    "third": CHAIN,
    "waits": WAITS,
    "endless": ENDLESS,
}
DECOUPLED = ("count", "endless")


def lay_out(repository):
    for name, code in MODELS.items():
        for form in FORMS:
            decoupled = str(name in DECOUPLED).lower()
            config = f"""
                max_batch_size: 8
                input [ {{ name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }} ]
                output [ {{ name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }} ]
                model_transaction_policy {{ decoupled: {decoupled} }}
                instance_group [ {{ count: {INSTANCES.get(name, 1)} kind: KIND_CPU }} ]
                parameters {{ key: "execution" value {{ string_value: "{form}" }} }}
            """
            write_python_model(repository, f"{name}_{form}", config, HEAD + code)


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


def floats(*values):
    return {"IN": np.array([values], np.float32)}


@pytest.fixture
def call(door, form):
    """Have the caller call in one way; gives what it answered with."""

    def ask(way, *values):
        return door.infer(f"caller_{form}", floats(*values), parameters={"way": way})["OUT"].tolist()

    return ask


@pytest.mark.parametrize("way", ["async_exec", "exec", "blocking", "stream_of_plain"])
def test_each_way_to_call_gives_the_models_answer(call, way):
    assert call(way, 1, 2) == [[2, 4]]


def test_many_calls_at_once(call):
    assert call("many", 1) == [[2 * sum(1 + n for n in range(50))]]


def test_three_in_a_row(door, form):
    assert door.infer(f"first_{form}", floats(5))["OUT"].tolist() == [[13]]


def test_the_error_at_the_end_of_a_row_comes_back_with_its_code(door, form):
    with pytest.raises(RefusedError, match="I take nothing below zero") as refused:
        door.infer(f"first_{form}", floats(-1))
    assert refused.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize("count", [0, 1, 5, 300])
def test_responses_of_a_decoupled_model_in_order(call, count):
    assert call("stream", count) == [list(range(count))]


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_bare_end_is_an_empty_response_and_responses_can_be_read_again(call, count):
    assert call("stream_blocking", count) == [[1] * count + [0]]


def test_what_a_call_carries(call):
    assert call("carried", 1) == [[1]]


@pytest.mark.parametrize("way", ["async_exec", "exec", "blocking"])
def test_an_error_of_the_model_is_a_response(call, way):
    with pytest.raises(RefusedError, match="I take nothing below zero") as refused:
        call(way, -1)
    assert refused.value.code == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("way", "code", "text"),
    [
        ("nowhere", "NOT_FOUND", "Error when running inference: Request for unknown model: 'nowhere_.*' is not found"),
        ("version", "NOT_FOUND", "version 7"),
        ("itself", "INVALID_ARGUMENT", "circle"),
        ("itself_from_a_thread", "INVALID_ARGUMENT", "circle"),
        ("no_input", "INVALID_ARGUMENT", r"missing required input\(s\) \['IN'\]"),
        ("plain_call_of_decoupled", "UNIMPLEMENTED", "'decoupled=True' argument to the 'exec' or 'async_exec' calls"),
    ],
)
def test_a_call_that_is_refused_is_a_response_with_the_reason(call, way, code, text):
    with pytest.raises(RefusedError, match=text) as refused:
        call(way, 1)
    assert refused.value.code == code


@pytest.mark.parametrize("depth", [0, 1, 2])
def test_a_model_may_call_itself_while_it_has_a_free_instance(door, form, depth):
    assert door.infer(f"nested_{form}", floats(depth))["OUT"].tolist() == [[depth]]


def test_a_model_that_calls_itself_once_too_often_is_told(door, form):
    with pytest.raises(RefusedError, match="circle of calls, and none of its instances is free"):
        door.infer(f"nested_{form}", floats(3))
    assert door.infer(f"nested_{form}", floats(2))["OUT"].tolist() == [[2]]


def test_models_that_call_themselves_at_the_same_time_never_hang(server, clients, form):
    model = server.model(f"nested_{form}")

    def ask(_):
        try:
            return model.infer(IN=floats(2)["IN"])["OUT"].tolist()
        except InvalidArgumentError as refused:
            return "circle of calls" in str(refused)

    assert all(each in ([[2]], True) for each in clients.map(ask, range(32), timeout=PATIENCE_S))


def test_a_cancelled_call_ends(call):
    with pytest.raises(RefusedError, match="cancelled"):
        call("cancelled", 1)


def test_a_cancelled_stream_ends(call):
    assert call("stream_cancelled", 1) == [[0]]


def test_a_dropped_stream_ends(call, server, form):
    assert call("stream_dropped", 1) == [[1]]
    assert server.model(f"endless_{form}").loaded.wait_idle(PATIENCE_S)
