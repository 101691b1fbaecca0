"""Lines about requests and answers: what they tell, and what they never tell."""

import asyncio
import re

import numpy as np
import pytest

from charonia.core.errors import BackendError, Code
from charonia.core.request import Reply
from charonia.core.tensor import Tensor
from charonia.frontend.control.asgi_bridge import AsgiBridge
from charonia.frontend.control.rpc import SERVICE, ControlRpc
from charonia.frontend.control.waiting import WaitingCalls
from charonia.frontend.request_log import RequestLog
from charonia.observe.log import LevelChanges
from charonia.testing.calls import FakeHttpCall, FakeRpcCall
from charonia.testing.log import kept_log
from charonia.testing.requests import make_request

SECRET = np.array([[3735928559, 3405691582]], np.uint32)


@pytest.fixture
def kept():
    return kept_log(verbose_level=1)


@pytest.fixture
def requests(kept):
    return RequestLog(kept[0], now_ns=lambda: 5_000_000)


def request(name="m", id="abc", inputs=None):
    made = make_request(None, name, id=id, inputs=inputs or {"X": Tensor.from_numpy("X", SECRET)})
    made.arrival_ns, made.version = 1_000_000, "3"
    return made


def messages(kept):
    return [line.split("] ", 1)[1].strip('"') for line in kept[1].lines]


def test_a_request_and_its_answer(requests, kept):
    requests.arrived("http", request())
    requests.answered([Reply(request(), [Tensor.from_numpy("Y", SECRET)])])
    assert messages(kept) == [
        "http request 'abc' to model 'm': inputs X UINT32 [1,2] 8 bytes",
        "answer to request 'abc' to model 'm' version 3: OK after 4000 us: outputs Y UINT32 [1,2] 8 bytes",
    ]


def test_the_answers_of_a_decoupled_model(requests, kept):
    asked, outputs = request(), [Tensor.from_numpy("Y", SECRET)]
    requests.answered([Reply(asked, outputs, final=False), Reply(asked, has_response=False)])
    assert messages(kept) == [
        "one of the answers to request 'abc' to model 'm' version 3: OK after 4000 us: outputs Y UINT32 [1,2] 8 bytes",
        "end of the answers to request 'abc' to model 'm' version 3: OK after 4000 us",
    ]


def test_failures_are_told_without_their_sentence(requests, kept):
    requests.answered([Reply(request(), error=BackendError("value 3735928559 is not allowed"))])
    requests.refused("grpc", "m", "abc", Code.INVALID_ARGUMENT, 1_000_000)
    assert messages(kept) == [
        "answer to request 'abc' to model 'm' version 3: INTERNAL after 4000 us",
        "grpc request 'abc' to model 'm': INVALID_ARGUMENT after 4000 us",
    ]


def test_contents_are_never_told(requests, kept):
    requests.arrived("http", request())
    requests.answered([Reply(request(), [Tensor.from_numpy("Y", SECRET)], parameters={"p": "3735928559"})])
    for secret in ("3735928559", "3405691582", "deadbeef", "\\xef"):
        assert secret not in kept[1].text


def test_names_and_ids_stay_in_their_line_and_are_cut(requests, kept):
    hostile = '\nI1129 15:50:53.381695 1 a.cc:1] "forged"\x1b[31m\u2028'
    tensors = {hostile: Tensor.from_numpy(hostile, SECRET)}
    requests.arrived("http", request(hostile, hostile, tensors))
    requests.answered([Reply(request(hostile, "x" * 1_000_000), [Tensor.from_numpy(hostile * 10_000, SECRET)])])
    requests.refused("http", hostile, hostile, Code.INVALID_ARGUMENT, 0)
    assert len(kept[1].text.split("\n")) == 4
    assert all(line.isprintable() and len(line) < 2000 for line in kept[1].lines)


def test_many_tensors_are_counted(requests, kept):
    tensors = {f"T{n}": Tensor.from_numpy(f"T{n}", SECRET) for n in range(1000)}
    requests.arrived("http", request(inputs=tensors))
    assert messages(kept)[0].endswith("T15 UINT32 [1,2] 8 bytes, and 984 more")


def test_it_follows_the_levels_of_the_model():
    log, lines = kept_log()
    requests = RequestLog(log)
    assert not requests.on
    log.change_model("m", LevelChanges(verbose_level=1))
    assert requests.on
    for name in ("m", "other"):
        requests.arrived("http", request(name))
        requests.answered([Reply(request(name))])
        requests.refused("http", name, "", Code.INVALID_ARGUMENT, 0)
    assert len(lines.lines) == 3
    assert "other" not in lines.text


def test_control_calls_over_http(kept):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 418})
        await send({"type": "http.response.body", "body": b"secret"})

    async def fault(scope, receive, send):
        raise ValueError("fault")

    bridge = AsgiBridge({"http": app, "metrics": fault}, kept[0])
    asyncio.run(bridge.serve(FakeHttpCall("POST", "/v2/logging", body=b"secret")))
    assert re.fullmatch(r"HTTP POST /v2/logging: 418 after \d+ us", messages(kept)[0])
    asyncio.run(bridge.serve(FakeHttpCall("GET", "/" + "x" * 5000, listener="metrics")))
    assert re.fullmatch(r"HTTP GET /x{199}…: 500 after \d+ us", messages(kept)[-1])


def test_control_calls_over_grpc(kept, handlers):
    rpc = ControlRpc(handlers, kept[0], WaitingCalls())
    for method in ("ServerLive", "Nonsense"):
        asyncio.run(rpc.serve(FakeRpcCall(f"/{SERVICE}/{method}")))
    live, nonsense = messages(kept)
    assert re.fullmatch(rf"gRPC /{SERVICE}/ServerLive: OK after \d+ us", live)
    assert re.fullmatch(rf"gRPC /{SERVICE}/Nonsense: UNIMPLEMENTED after \d+ us", nonsense)
