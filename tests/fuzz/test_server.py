"""A short, seeded run of broken connections to a server that listens; `make fuzz TARGET=server` has a long one."""

from math import inf

import pytest

from tests.fuzz import server as fuzz
from tests.fuzz import streams
from tests.wire.served import read_until_ended


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    running = fuzz.Target(tmp_path_factory.mktemp("fuzz"))
    yield running
    running.close()


def test_what_is_sent_is_right_before_it_is_broken(target):
    for sent in streams.HTTP:
        with target.connect("http") as client:
            client.sendall(sent)
            assert client.recv(65536).startswith((b"HTTP/1.1 2", b"HTTP/1.1 100", b"HTTP/1.0 404")), sent
    for sent in streams.GRPC:
        with target.connect("grpc") as client:
            client.sendall(streams.PREFACE + streams.frame(streams.SETTINGS) + sent)
            answer = read_until_ended(client, 1)
        kinds = [kind for kind, _, stream, _ in streams.frames(answer) if stream == 1]
        # Headers, a message and trailers: an error has no message.
        assert kinds[0] == kinds[-1] == streams.HEADERS, sent
        assert set(kinds) == {streams.HEADERS, streams.DATA}, (sent, answer)


def test_what_was_found_before_breaks_nothing(target):
    for connection in fuzz.kept():
        target.check(connection, rude=False)
    target.check_whole()


def test_broken_connections_break_nothing(target):
    before = fuzz.memory_bytes()
    assert fuzz.attack_together(target, seed=1, until=inf, most=300) == fuzz.CLIENTS * 300
    target.check_whole()
    assert fuzz.memory_bytes() - before < fuzz.MOST_GROWTH_BYTES
