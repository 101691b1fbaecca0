"""What gRPC's flags and headers promise: compression, ages, pings, sizes, errors that end a stream."""

from queue import SimpleQueue
from typing import Any

import grpc
import pytest

from tests.wire.served import (
    DATA,
    END_HEADERS,
    END_STREAM,
    FAILS,
    HEADERS,
    PATIENCE_S,
    PING,
    Served,
    begun,
    call_headers,
    frame,
    frames,
    goaway,
    grpc_value,
    message,
    read_all,
    read_until_ended,
    stub,
)

LONG = [0.5] * 10_000
PREFIX = 5


def call(served: Served, asked: Any, *headers: tuple[str, str]) -> tuple[bytes, bytes]:
    """The answer's first header block, and the bytes of its message, prefix and all."""
    text = asked.SerializeToString()
    body = b"\0" + len(text).to_bytes(4, "big") + text
    connection = begun(served)
    connection.sendall(frame(HEADERS, END_HEADERS, 1, call_headers("ModelInfer", *headers)))
    pieces = [body[at : at + 16_000] for at in range(0, len(body), 16_000)]
    connection.sendall(b"".join(frame(DATA, 0, 1, piece) for piece in pieces) + frame(DATA, END_STREAM, 1))
    found = frames(read_until_ended(connection, 1))
    connection.close()
    heads = [payload for kind, _, _, payload in found if kind == HEADERS]
    return heads[0], b"".join(payload for kind, _, _, payload in found if kind == DATA)


@pytest.mark.parametrize("level", ["low", "medium", "high"])
@pytest.mark.parametrize("accepted", ["gzip", "deflate", "identity,deflate,gzip", "identity", ""])
def test_answers_are_compressed_for_those_who_read_it(level: str, accepted: str) -> None:
    with Served(grpc_compression_level=level) as served:
        headers = [("grpc-accept-encoding", accepted)] if accepted else []
        _, answer = call(served, message(LONG), *headers)
        is_compressed = accepted not in ("identity", "")
        assert answer[0] == is_compressed
        assert (len(answer) < 1000) == is_compressed
        assert len(answer) == PREFIX + int.from_bytes(answer[1:PREFIX], "big")


@pytest.mark.parametrize("level", ["none", "low", "high"])
def test_real_clients_read_what_is_compressed(level: str) -> None:
    with Served(grpc_compression_level=level) as served, served.channel() as channel:
        for asked in (message([1.5]), message([1.5, *LONG])):
            assert grpc_value(stub(channel).ModelInfer(asked, timeout=PATIENCE_S)) == 1.5
        streamed = stub(channel).ModelStreamInfer(iter([message([2.5]), message([3.5, *LONG])]), timeout=PATIENCE_S)
        assert [grpc_value(each.infer_response) for each in streamed] == [2.5, 3.5]


def test_what_would_not_get_shorter_is_sent_as_it_is() -> None:
    with Served(grpc_compression_level="high") as served:
        _, answer = call(served, message([1.5]), ("grpc-accept-encoding", "gzip"))
        assert answer[0] == 0


def test_the_size_of_a_message_has_a_limit() -> None:
    with Served(grpc_max_message_bytes=1000) as served, served.channel() as channel:
        for compression in (grpc.Compression.NoCompression, grpc.Compression.Gzip):
            with pytest.raises(grpc.RpcError, match="--grpc-max-message-size") as refused:
                stub(channel).ModelInfer(message(LONG), compression=compression, timeout=PATIENCE_S)
            assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        assert grpc_value(stub(channel).ModelInfer(message([1.5]), timeout=PATIENCE_S)) == 1.5


def test_an_old_connection_is_told_to_go_and_may_finish() -> None:
    with Served(grpc_max_connection_age_ms=100) as served:
        connection = begun(served)
        connection.sendall(frame(HEADERS, END_HEADERS, 1, call_headers()))
        received = b""
        while goaway(received) is None:
            received += connection.recv(65536)
        text = message([1.5]).SerializeToString()
        connection.sendall(frame(DATA, END_STREAM, 1, b"\0" + len(text).to_bytes(4, "big") + text))
        # The server asks by a PING whether its GOAWAY was heard, and ends nothing before the answer.
        pings = [payload for kind, _, _, payload in frames(received) if kind == PING]
        connection.sendall(b"".join(frame(PING, 1, payload=payload) for payload in pings))
        found = frames(read_all(connection))
        assert [payload for kind, _, _, payload in found if kind == DATA]
        connection.close()
        assert served.answers()


def test_an_old_connection_has_a_grace() -> None:
    with Served(grpc_max_connection_age_ms=50, grpc_max_connection_age_grace_ms=50) as served:
        connection = begun(served)
        connection.sendall(frame(HEADERS, END_HEADERS, 1, call_headers()))
        assert goaway(read_all(connection)) is not None
        connection.close()


def test_real_clients_do_not_notice_an_age() -> None:
    with Served(grpc_max_connection_age_ms=20) as served, served.channel() as channel:
        for _ in range(200):
            assert grpc_value(stub(channel).ModelInfer(message([1.5]), timeout=PATIENCE_S, wait_for_ready=True)) == 1.5


def ping() -> bytes:
    return frame(PING, payload=bytes(8))


def test_too_many_pings_end_a_connection() -> None:
    """The first is free; each that follows too soon is a strike."""
    with Served() as served:
        connection = begun(served)
        connection.sendall(ping() * 3)
        answered = b""
        while [kind for kind, *_ in frames(answered)].count(PING) < 3:
            answered += connection.recv(65536)
        assert goaway(answered) is None
        connection.sendall(ping())
        assert goaway(read_all(connection)) == (11, b"too_many_pings")
        connection.close()
        assert served.answers()


def test_pings_beside_answers_are_no_strikes() -> None:
    with Served() as served:
        connection = begun(served)
        for stream in range(1, 41, 2):
            connection.sendall(ping() * 2 + frame(HEADERS, END_HEADERS, stream, call_headers("ServerLive")))
            connection.sendall(frame(DATA, END_STREAM, stream, bytes(5)))
            assert goaway(read_until_ended(connection, stream)) is None
        connection.close()


def test_pings_as_often_as_they_may_come() -> None:
    with Served(grpc_min_recv_ping_interval_ms=0, grpc_keepalive_permit_without_calls=True) as served:
        connection = begun(served)
        connection.sendall(ping() * 100)
        answered = b""
        while [kind for kind, *_ in frames(answered)].count(PING) < 100:
            answered += connection.recv(65536)
        assert goaway(answered) is None
        connection.close()


def test_a_client_that_is_silent_is_asked_and_let_go() -> None:
    with Served(grpc_keepalive_time_ms=50, grpc_keepalive_timeout_ms=50) as served:
        connection = begun(served)
        found = frames(read_all(connection))
        assert PING in [kind for kind, *_ in found]
        connection.close()
        assert served.answers()


def streamed(
    channel: grpc.Channel, *messages: Any, metadata: tuple[tuple[str, str], ...] = ()
) -> tuple[list[Any], Any]:
    """What a stream answers, and its end."""
    answers: list[Any] = []
    stream = stub(channel).ModelStreamInfer(iter(messages), metadata=metadata, timeout=PATIENCE_S)
    try:
        answers.extend(stream)
    except grpc.RpcError:
        pass
    return answers, stream


STRICT = (("triton_grpc_error", "true"),)


def test_an_inference_that_fails_ends_a_stream_that_asked_for_it() -> None:
    with Served() as served, served.channel() as channel:
        answers, stream = streamed(channel, message([1.5]), message([FAILS]), message([2.5]), metadata=STRICT)
        assert [grpc_value(each.infer_response) for each in answers] == [1.5]
        assert (stream.code(), stream.details()) == (grpc.StatusCode.INTERNAL, "the model failed")
        answers, stream = streamed(channel, message([3.5]), metadata=STRICT)
        assert ([grpc_value(each.infer_response) for each in answers], stream.code()) == ([3.5], grpc.StatusCode.OK)


@pytest.mark.parametrize("metadata", [(), (("triton_grpc_error", "false"),)])
def test_without_it_the_stream_goes_on(metadata: tuple[tuple[str, str], ...]) -> None:
    with Served() as served, served.channel() as channel:
        answers, stream = streamed(channel, message([FAILS], id="f"), message([2.5]), metadata=metadata)
        assert answers[0].error_message == "the model failed"
        assert answers[0].infer_response.id == "f"
        assert grpc_value(answers[1].infer_response) == 2.5
        assert stream.code() == grpc.StatusCode.OK


def test_a_request_that_is_refused_never_ends_a_stream() -> None:
    with Served() as served, served.channel() as channel:
        wrong = message([1.5])
        wrong.inputs[0].shape[0] = 7
        answers, stream = streamed(channel, wrong, message([2.5]), metadata=STRICT)
        assert "Expected 28, got 4" in answers[0].error_message
        assert grpc_value(answers[1].infer_response) == 2.5
        assert stream.code() == grpc.StatusCode.OK


def test_a_stream_that_is_not_ended_by_its_client_ends_with_an_error_all_the_same() -> None:
    with Served() as served, served.channel() as channel:
        asks: SimpleQueue[Any] = SimpleQueue()
        asks.put(message([FAILS]))
        stream = stub(channel).ModelStreamInfer(iter(asks.get, None), metadata=STRICT)
        with pytest.raises(grpc.RpcError):
            next(stream)
        asks.put(None)
