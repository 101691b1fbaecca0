"""Floods of HTTP/2 frames: the connection ends and says why, others are answered meanwhile and afterwards."""

import os
import struct
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from tests.certificates import Authority
from tests.wire.served import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PING,
    PREFACE,
    PRIORITY,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    Served,
    begun,
    call_headers,
    frame,
    frames,
    goaway,
    header_block,
    read_all,
    read_until_ended,
    send_until_closed,
)

ENHANCE_YOUR_CALM = 11
MAX_CONCURRENT_STREAMS = 3  # a setting
# Generous: what is looked for are leaks by flood, which are hundreds of megabytes.
MOST_GROWTH_BYTES = 60 << 20


@pytest.fixture(scope="module")
def served(transport: Authority | None) -> Iterator[Served]:
    with Served(transport, http2_max_control_frames=1000, grpc_max_ping_strikes=0) as running:
        yield running


@pytest.fixture(autouse=True)
def unharmed(served: Served) -> Iterator[None]:
    before = psutil.Process().memory_info().rss
    yield
    assert served.answers()
    assert psutil.Process().memory_info().rss - before < MOST_GROWTH_BYTES


FLOODS = {
    "ping": frame(PING, payload=bytes(8)),
    "ping answers": frame(PING, ACK, payload=bytes(8)),
    "settings": frame(SETTINGS, payload=b"\0\x03\0\0\0\x64"),
    "empty settings": frame(SETTINGS),
    "windows": frame(WINDOW_UPDATE, payload=b"\0\0\0\x01"),
    "priorities": frame(PRIORITY, stream=1, payload=b"\0\0\0\0\x10"),
    "unknown": frame(0x77, payload=b"x" * 50),
}


@pytest.mark.parametrize("door", ["grpc", "http"])
@pytest.mark.parametrize("kind", FLOODS)
def test_frames_that_bring_nothing(served: Served, door: str, kind: str) -> None:
    connection = begun(served, door)
    connection.sendall(FLOODS[kind] * 1100)
    assert goaway(read_all(connection)) == (ENHANCE_YOUR_CALM, b"too_many_control_frames")
    connection.close()


def test_a_flood_ends_although_nothing_of_the_answers_is_read(served: Served) -> None:
    connection = begun(served)
    send_until_closed(connection, FLOODS["ping"] * 1000)
    connection.close()


def test_an_answer_makes_room_for_more(served: Served) -> None:
    """A long download is a long row of window updates."""
    connection = begun(served)
    for stream in range(1, 21, 2):
        ask = frame(HEADERS, END_HEADERS, stream, call_headers("ServerLive"))
        connection.sendall(FLOODS["windows"] * 300 + ask + frame(DATA, END_STREAM, stream, bytes(5)))
        answer = read_until_ended(connection, stream)
        assert goaway(answer) is None
    connection.close()


def rapid_reset(first: int, count: int) -> bytes:
    block = call_headers()
    streams = range(first, first + 2 * count, 2)
    cancel = (8).to_bytes(4, "big")
    return b"".join(frame(HEADERS, END_HEADERS, each, block) + frame(RST_STREAM, 0, each, cancel) for each in streams)


@pytest.mark.parametrize("door", ["grpc", "http"])
def test_streams_that_are_reset_at_once(served: Served, door: str) -> None:
    connection = begun(served, door)
    connection.sendall(rapid_reset(1, 5000))
    last = goaway(read_all(connection))
    assert last is not None
    assert last[0] == ENHANCE_YOUR_CALM
    connection.close()


def test_more_streams_than_may_be_open(served: Served) -> None:
    connection = begun(served)
    asks = (frame(HEADERS, END_HEADERS, each, call_headers()) for each in range(1, 20_001, 2))
    connection.sendall(b"".join(asks))
    assert served.answers()
    connection.close()


@pytest.mark.parametrize("door", ["http", "grpc"])
def test_a_client_is_told_how_many_streams_it_may_open(transport: Authority | None, door: str) -> None:
    with Served(transport, http2_max_streams=7) as running:
        connection = begun(running, door)
        received = b""
        while not any(kind == SETTINGS and payload for kind, _, _, payload in frames(received)):
            received += connection.recv(65536)
        payload = next(payload for kind, _, _, payload in frames(received) if kind == SETTINGS)
        told = dict(struct.iter_unpack(">HI", payload))
        assert told[MAX_CONCURRENT_STREAMS] == 7
        connection.close()


def test_a_header_block_that_never_ends(served: Served) -> None:
    connection = begun(served)
    send_until_closed(
        connection,
        frame(HEADERS, 0, 1, call_headers()) + frame(CONTINUATION, 0, 1, header_block(("x", "a" * 100))) * 5000,
    )
    connection.close()


def test_empty_continuations(served: Served) -> None:
    connection = begun(served)
    connection.sendall(frame(HEADERS, 0, 1, call_headers()) + frame(CONTINUATION, 0, 1) * 2000)
    assert goaway(read_all(connection)) is not None
    connection.close()


def long_headers(count: int) -> bytes:
    block = call_headers("ModelInfer", *[(f"x-{number}", "a" * 1000) for number in range(count)])
    parts = [block[at : at + 16_000] for at in range(0, len(block), 16_000)]
    last = len(parts) - 1
    rest = (frame(CONTINUATION, END_HEADERS if at == last else 0, 1, part) for at, part in enumerate(parts) if at)
    return frame(HEADERS, END_STREAM, 1, parts[0]) + b"".join(rest)


def test_a_list_of_headers_beyond_the_limit_is_refused(served: Served) -> None:
    connection = begun(served)
    connection.sendall(long_headers(100))
    answer = read_until_ended(connection, 1)
    assert any(stream == 1 for _, _, stream, _ in frames(answer))
    assert goaway(answer) is None
    connection.close()


def test_a_list_of_headers_without_end_ends_the_connection(served: Served) -> None:
    connection = begun(served)
    send_until_closed(connection, long_headers(600))
    connection.close()


def test_empty_data(served: Served) -> None:
    connection = begun(served)
    with suppress(ConnectionError):  # it may hang up before all of it is sent
        connection.sendall(frame(HEADERS, END_HEADERS, 1, call_headers()) + frame(DATA, 0, 1) * 5000)
    last = goaway(read_all(connection))
    assert last is not None
    assert last[0] == ENHANCE_YOUR_CALM
    connection.close()


def test_tiny_data(served: Served) -> None:
    """A large message a byte at a time is slow and no more."""
    connection = begun(served)
    connection.sendall(frame(HEADERS, END_HEADERS, 1, call_headers()))
    connection.sendall(frame(DATA, 0, 1, b"\0" + (30_000).to_bytes(4, "big")) + frame(DATA, 0, 1, b"\xff") * 30_000)
    assert served.answers()
    connection.close()


def test_windows_beyond_what_can_be(served: Served) -> None:
    connection = begun(served)
    connection.sendall(frame(WINDOW_UPDATE, payload=b"\x7f\xff\xff\xff") * 3)
    assert goaway(read_all(connection)) is not None
    connection.close()


def test_frames_longer_than_may_be(served: Served) -> None:
    connection = begun(served)
    connection.sendall(b"\xff\xff\xff" + bytes((DATA, 0)) + (1).to_bytes(4, "big") + bytes(100))
    assert goaway(read_all(connection)) is not None
    connection.close()


@pytest.mark.parametrize("door", ["grpc", "http"])
def test_noise_behind_the_preface(served: Served, door: str) -> None:
    for _ in range(20):
        connection = served.connect(door)
        noise = os.urandom(2000)
        connection.sendall(PREFACE + frame(SETTINGS) + noise)
        connection.shutdown(1)
        read_all(connection)
        connection.close()
