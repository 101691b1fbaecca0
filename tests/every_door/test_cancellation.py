"""Who no longer wants an answer leaves the queue at once, by whatever door, and disturbs nobody."""

import asyncio
import json
import socket
import threading

import grpc
import numpy as np
import pytest

from charonia.core.errors import CancelledError
from charonia.core.request import InferRequest
from tests.every_door.raw import RawGrpc, http_request, infer_pb2, one_input
from tests.every_door.served import row, value_of
from tests.every_door.watched import WatchedQueue
from tests.models.gated import PATIENCE_S

BATCHING = "max_batch_size: 1 dynamic_batching { }"


def message(value):
    asked = infer_pb2.ModelInferRequest(model_name="m", raw_input_contents=[np.full(1, value, np.float32).tobytes()])
    asked.inputs.add(name="IN", datatype="FP32", shape=[1, 1])
    return asked


def by_closing_http(served, watched):
    body = json.dumps(one_input([9.0], name="IN", shape=[1, 1])).encode()
    with socket.create_connection(("127.0.0.1", served.server.ports["http"]), timeout=PATIENCE_S) as connection:
        connection.sendall(http_request("/v2/models/m/infer", body))
        watched.wait_queued()


def by_closing_one_side_of_http(served, watched):
    body = json.dumps(one_input([9.0], name="IN", shape=[1, 1])).encode()
    with socket.create_connection(("127.0.0.1", served.server.ports["http"]), timeout=PATIENCE_S) as connection:
        connection.sendall(http_request("/v2/models/m/infer", body))
        watched.wait_queued()
        connection.shutdown(socket.SHUT_WR)
        assert connection.recv(1) == b""


def by_resetting_http(served, watched):
    body = json.dumps(one_input([9.0], name="IN", shape=[1, 1])).encode()
    with socket.create_connection(("127.0.0.1", served.server.ports["http"]), timeout=PATIENCE_S) as connection:
        connection.sendall(http_request("/v2/models/m/infer", body))
        watched.wait_queued()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")


def by_cancelling_grpc(served, watched):
    door = RawGrpc(served.server)
    call = door.stub.ModelInfer.future(message(9))
    watched.wait_queued()
    call.cancel()
    assert call.code() == grpc.StatusCode.CANCELLED
    door.close()


def by_a_deadline(served, watched):
    door = RawGrpc(served.server)
    with pytest.raises(grpc.RpcError) as refused:
        door.stub.ModelInfer(message(9), timeout=0.2)
    assert refused.value.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    watched.wait_queued()
    door.close()


def by_closing_the_channel(served, watched):
    door = RawGrpc(served.server)
    call = door.stub.ModelInfer.future(message(9))
    watched.wait_queued()
    door.close()
    assert call.code() == grpc.StatusCode.CANCELLED


def by_cancelling_the_future(served, watched):
    future = served.send(9)
    watched.wait_queued()
    assert future.cancel()


def by_cancelling_the_task(served, watched):
    async def ask():
        task = asyncio.ensure_future(served.model.infer_async(row(9)))
        await asyncio.sleep(0)  # lets the task start, which queues the request
        watched.wait_queued()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(ask())


WAYS = (
    by_closing_http,
    by_closing_one_side_of_http,
    by_resetting_http,
    by_cancelling_grpc,
    by_a_deadline,
    by_closing_the_channel,
    by_cancelling_the_future,
    by_cancelling_the_task,
)


@pytest.mark.parametrize("way", WAYS)
def test_what_is_queued_is_cancelled_while_the_instance_is_busy(gated, way):
    served = gated(BATCHING)
    watched = WatchedQueue(served.model)
    busy = served.occupy(1)
    watched.wait_queued()
    way(served, watched)
    assert isinstance(watched.wait_refused(), CancelledError)
    assert served.model.loaded.pending_count == 0
    behind = served.send(2)
    served.gate.open_for_good()
    assert (value_of(busy), value_of(behind)) == (1, 2)
    assert served.gate.next_entered()["values"] == [2]  # nobody executed 9
    counted = served.model.statistics()
    assert (counted.inference_count, counted.inference["fail"].count) == (2, 1)


@pytest.mark.parametrize("way", WAYS)
def test_one_in_the_middle_of_a_growing_batch_leaves_its_neighbours(gated, way):
    served = gated(
        "max_batch_size: 8 dynamic_batching { preferred_batch_size: [3] max_queue_delay_microseconds: 3600000000 }"
    )
    watched = WatchedQueue(served.model)
    before = served.send(1)
    watched.wait_queued()
    way(served, watched)
    watched.wait_refused()
    served.gate.open()
    after = [served.send(2), served.send(3)]
    assert [value_of(future) for future in (before, *after)] == [1, 2, 3]
    assert served.batch_statistics() == {3: 1}


@pytest.mark.parametrize("form", ["inline", "isolated"])
@pytest.mark.parametrize("way", [by_closing_http, by_cancelling_grpc, by_closing_the_channel])
def test_a_model_that_is_executing_sees_that_nobody_waits(gated, monkeypatch, way, form):
    served = gated(BATCHING, form=form)
    watched = WatchedQueue(served.model)
    told = threading.Event()
    cancel = InferRequest.cancel
    monkeypatch.setattr(InferRequest, "cancel", lambda request: (cancel(request), told.set()))
    watched.wait_queued = lambda inner=watched.wait_queued: (inner(), served.gate.next_entered())
    way(served, watched)
    assert told.wait(PATIENCE_S)
    served.gate.open()
    assert served.gate.next_left()["cancelled"] == [True]
    served.gate.open()
    np.testing.assert_array_equal(served.model.infer(row(3))["OUT"], [[3]])


def test_cancelling_at_the_moment_of_the_answer_harms_nobody(gated):
    """A race on purpose: whichever comes first, the server stays well."""
    served = gated(BATCHING)
    served.gate.open_for_good()
    door = RawGrpc(served.server)
    for value in range(300):
        call = door.stub.ModelInfer.future(message(value))
        call.add_done_callback(lambda _: None)
        if value % 3:
            served.gate.next_entered()
        call.cancel()
    answer = door.infer(message(7))
    assert np.frombuffer(answer.raw_output_contents[0], np.float32) == [7]
    door.close()
    assert served.server.live


def test_a_client_that_cancels_often_keeps_its_channel(gated):
    """Calls given up at once by the hundred must not end the connection under those that wait on it."""
    served = gated(BATCHING)
    door = RawGrpc(served.server)
    waiting = door.stub.ModelInfer.future(message(1))
    served.gate.next_entered()
    for value in range(2, 502):
        door.stub.ModelInfer.future(message(value)).cancel()
    served.gate.open_for_good()
    assert np.frombuffer(waiting.result(PATIENCE_S).raw_output_contents[0], np.float32) == [1]
    door.close()


def test_a_short_deadline_in_a_loop(gated):
    served = gated(BATCHING)
    served.gate.open_for_good()
    door = RawGrpc(served.server)
    calls = [door.stub.ModelInfer.future(message(value), timeout=0.001) for value in range(100)]
    assert {call.code() for call in calls} <= {grpc.StatusCode.OK, grpc.StatusCode.DEADLINE_EXCEEDED}
    assert np.frombuffer(door.infer(message(7)).raw_output_contents[0], np.float32) == [7]
    door.close()
