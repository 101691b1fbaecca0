"""What the gRPC client has of its own: callbacks, cancellation, time-outs, compression, plugins, streams."""

import asyncio
import queue
import threading

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.grpc.aio as aio
from tritonclient.utils import InferenceServerException

from tests.models.gated import PATIENCE_S


def inputs(value=3):
    array = np.full((1, 16), value, np.float32)
    return [grpcclient.InferInput(n, [1, 16], "FP32").set_data_from_numpy(array) for n in ("INPUT0", "INPUT1")]


def waiting():
    return [grpcclient.InferInput("IN", [1, 1], "FP32").set_data_from_numpy(np.ones((1, 1), np.float32))]


def address(server):
    return f"127.0.0.1:{server.ports['grpc']}"


class Answers:
    """A callback that puts what came into a queue."""

    def __init__(self):
        self._queue = queue.Queue()

    def __call__(self, result, error):
        self._queue.put((result, error))

    def next(self):
        return self._queue.get(timeout=PATIENCE_S)


def test_callbacks(grpc):
    answers = Answers()
    for value in range(20):
        grpc.async_infer("add_sub", inputs(value), answers, request_id=str(value))
    got = {}
    for _ in range(20):
        result, error = answers.next()
        assert error is None
        got[result.get_response().id] = result.as_numpy("OUTPUT0")[0, 0]
    assert got == {str(value): 2 * value for value in range(20)}


def test_a_callback_of_a_failure(grpc):
    answers = Answers()
    grpc.async_infer("nope", inputs(), answers)
    result, error = answers.next()
    assert result is None
    assert "nope" in error.message()


def test_cancelling_a_call_that_waits(grpc, gate, server):
    answers = Answers()
    busy = Answers()
    grpc.async_infer("gated", waiting(), busy)
    gate.next_entered()
    call = grpc.async_infer("gated", waiting(), answers)
    call.cancel()
    result, error = answers.next()
    assert result is None
    assert "CANCELLED" in str(error)
    gate.open()
    result, error = busy.next()
    assert error is None
    assert result.as_numpy("OUT").tolist() == [[1]]


def test_a_time_out_of_the_client(grpc, gate):
    with pytest.raises(InferenceServerException) as refused:
        grpc.infer("gated", waiting(), client_timeout=0.2)
    assert refused.value.status() == "StatusCode.DEADLINE_EXCEEDED"
    assert grpc.is_server_live(client_timeout=PATIENCE_S)
    gate.open()
    gate.next_entered()
    gate.next_left()
    gate.open()
    assert grpc.infer("gated", waiting()).as_numpy("OUT").tolist() == [[1]]


@pytest.mark.parametrize("coding", [None, "gzip", "deflate"])
def test_compression(grpc, coding):
    array = np.zeros((1, 100_000), np.float32)
    tensor = grpcclient.InferInput("INPUT0", [1, 100_000], "FP32").set_data_from_numpy(array)
    result = grpc.infer("scores", [tensor], compression_algorithm=coding)
    np.testing.assert_array_equal(result.as_numpy("OUTPUT0"), array)


def test_keep_alive_and_channel_settings(server):
    keep_alive = grpcclient.KeepAliveOptions(keepalive_time_ms=10_000, keepalive_permit_without_calls=True)
    with grpcclient.InferenceServerClient(address(server), keepalive_options=keep_alive) as client:
        assert client.infer("add_sub", inputs()).as_numpy("OUTPUT0").shape == (1, 16)
    settings = [("grpc.lb_policy_name", "pick_first"), ("grpc.max_receive_message_length", -1)]
    with grpcclient.InferenceServerClient(address(server), channel_args=settings) as client:
        assert client.is_model_ready("add_sub")


def test_plugins_and_headers(server):
    seen = []

    class Plugin(grpcclient.InferenceServerClientPlugin):
        def __call__(self, request):
            seen.append(dict(request.headers))
            request.headers["authorization"] = "Bearer none"

    with grpcclient.InferenceServerClient(address(server)) as client:
        client.register_plugin(Plugin())
        assert client.is_server_live(headers={"x-mine": "1"})
        assert client.infer("add_sub", inputs(), headers={"x-mine": "2"}).as_numpy("OUTPUT0").shape == (1, 16)
        client.unregister_plugin()
    assert [headers["x-mine"] for headers in seen] == ["1", "2"]


def test_messages_as_they_are(grpc):
    assert grpc.get_server_metadata().name == "conforming"
    assert grpc.get_model_metadata("add_sub").inputs[0].shape == [-1, 16]
    assert grpc.get_model_config("add_sub").config.max_batch_size == 8
    assert grpc.get_inference_statistics("add_sub", "1").model_stats[0].version == "1"
    assert {model.name for model in grpc.get_model_repository_index().models} >= {"add_sub", "words"}


def test_a_stream_says_that_it_is_not_there_yet_or_answers(server):
    """Streams come with a later feature; whatever the server says, it says it at once and goes on."""
    answers = Answers()
    with grpcclient.InferenceServerClient(address(server)) as client:
        client.start_stream(answers)
        client.async_stream_infer("add_sub", inputs())
        result, error = answers.next()
        assert (result is None) is (error is not None)
        if error is None:
            assert result.as_numpy("OUTPUT0").tolist() == [[6] * 16]
        client.stop_stream()
        assert client.is_server_live()


def test_many_threads_share_a_client(grpc):
    wrong = []

    def work(value):
        answers = [grpc.infer("add_sub", inputs(value)).as_numpy("OUTPUT0")[0, 0] for _ in range(20)]
        wrong.extend(answer for answer in answers if answer != 2 * value)

    threads = [threading.Thread(target=work, args=(value,)) for value in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


def test_asyncio_calls_side_by_side_and_one_cancelled(server, gate):
    async def ask():
        async with aio.InferenceServerClient(address(server)) as client:
            stuck = asyncio.ensure_future(client.infer("gated", waiting()))
            await asyncio.get_running_loop().run_in_executor(None, gate.next_entered)
            results = await asyncio.gather(*[client.infer("add_sub", inputs(value)) for value in range(20)])
            stuck.cancel()
            gate.open()
            with pytest.raises((asyncio.CancelledError, InferenceServerException)):
                await stuck
            assert await client.is_server_live()
            return [result.as_numpy("OUTPUT0")[0, 0] for result in results]

    assert asyncio.run(ask()) == [2 * value for value in range(20)]
