"""The response cache in a real Redis: shared, kept over restarts, and nobody's trouble when the Redis is gone."""

import shutil
import socket
import subprocess
import threading
from contextlib import closing
from time import monotonic
from types import SimpleNamespace

import numpy as np
import pytest

from charonia.api import Server
from charonia.cache.settings import RedisSettings
from charonia.core.errors import UnavailableError
from tests.models.repository import write_config, write_python_model

pytest.importorskip("redis")
PROGRAM = shutil.which("redis-server")
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="there is no redis-server")

PATIENCE_S = 20
CONFIG = """
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
    output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "WORD" data_type: TYPE_STRING dims: [ 1 ] } ]
    parameters { key: "execution" value { string_value: "inline" } }
    response_cache { enable: true }
"""
# Each loaded model has a word of its own.
CODE = """
    import os
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def initialize(self, args):
            self.word = np.array([os.urandom(8).hex().encode()], np.object_)

        def execute(self, requests):
            arrays = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
            return [
                pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array * FACTOR), pb_utils.Tensor("WORD", self.word)])
                for array in arrays
            ]
"""
WHOLE = """
    platform: "ensemble"
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
    output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }, { name: "WORD" data_type: TYPE_STRING dims: [ 1 ] } ]
    response_cache { enable: true }
    ensemble_scheduling {
      step {
        model_name: "m" input_map { key: "IN" value: "IN" }
        output_map { key: "OUT" value: "OUT" } output_map { key: "WORD" value: "WORD" }
      }
    }
"""


class Redis:
    """A real one, on a free port, with nothing on disk."""

    def __init__(self, folder, *words):
        with closing(socket.socket()) as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self._command = [PROGRAM, "--port", str(self.port), "--save", "", "--dir", str(folder), *words]
        self.start()

    def start(self):
        self._process = subprocess.Popen(
            [*self._command, "--bind", "127.0.0.1"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for line in self._process.stdout:
            if "Ready to accept connections" in line:
                break
        self._reader = threading.Thread(target=self._process.stdout.read)
        self._reader.start()

    def stop(self):
        self._process.kill()
        self._process.wait()
        self._reader.join()

    @property
    def config(self):
        return {"redis": {"host": "127.0.0.1", "port": str(self.port)}}


@pytest.fixture
def redis(tmp_path):
    running = Redis(tmp_path)
    yield running
    running.stop()


def lay_out(folder, factor=2, code=CODE):
    write_python_model(folder, "m", CONFIG, code.replace("FACTOR", str(factor)))
    (write_config(folder, "whole", WHOLE) / "1").mkdir(exist_ok=True)
    return folder


def serving(folder, redis, **more):
    ports = {"http_port": 0, "grpc_port": 0, "metrics_port": 0}
    return Server(folder, cache_config={"redis": redis.config["redis"] | more}, **ports)


def ask(server, value=1.0, model="m"):
    answer = server.model(model).infer({"IN": np.array([value], np.float32)})
    return answer["OUT"].item(), answer["WORD"].item()


def hits(server, model="m"):
    return server.model(model).statistics().inference["cache_hit"].count


def asked_until_kept(server, value=1.0, model="m"):
    """Answers are kept behind the requests' back."""
    before = hits(server, model)
    waited = threading.Event()
    while hits(server, model) == before:
        answer = ask(server, value, model)
        waited.wait(0.005)
    return answer


@pytest.mark.parametrize("model", ["m", "whole"])
def test_servers_share_what_they_know(tmp_path, redis, model):
    """Of the same model, wherever it lies and whenever its files were written."""
    one, two = lay_out(tmp_path / "one"), lay_out(tmp_path / "two")
    with serving(one, redis) as first:
        answer = asked_until_kept(first, model=model)
        with serving(two, redis) as second:
            assert ask(second, model=model) == answer
    with serving(one, redis) as again:
        assert ask(again, model=model) == answer


@pytest.mark.parametrize("model", ["m", "whole"])
def test_another_model_of_the_same_name_shares_nothing(tmp_path, redis, model):
    with serving(lay_out(tmp_path / "one", 2), redis) as first:
        assert asked_until_kept(first, model=model)[0] == 2.0
        with serving(lay_out(tmp_path / "two", 3), redis) as second:
            assert ask(second, model=model)[0] == 3.0


def test_a_redis_that_goes_away_costs_hits_only(tmp_path, redis):
    with serving(lay_out(tmp_path / "m"), redis) as server:
        asked_until_kept(server)
        redis.stop()
        started = monotonic()
        for value in range(200):
            assert ask(server, float(value))[0] == 2.0 * value
        assert monotonic() - started < PATIENCE_S  # without a bound, each would have waited
        before = hits(server)
        ask(server)
        assert hits(server) == before
        redis.start()
        asked_until_kept(server)


def test_one_that_does_not_answer_does_too(tmp_path):
    """A port that takes connections, answers the first question, and then nothing any more."""
    with closing(socket.create_server(("127.0.0.1", 0))) as listener:

        def answer():
            connection, _ = listener.accept()
            seen = b""
            while b"PING" not in seen:
                seen = connection.recv(4096)
                connection.sendall(b"+OK\r\n" * seen.count(b"SETINFO") + b"+PONG\r\n" * seen.count(b"PING"))
            held.append(connection)

        held = []
        thread = threading.Thread(target=answer)
        thread.start()

        silent = SimpleNamespace(config={"redis": {"host": "127.0.0.1", "port": str(listener.getsockname()[1])}})
        with serving(lay_out(tmp_path / "m"), silent, socket_timeout="50") as server:
            thread.join()
            assert ask(server, 3.0)[0] == 6.0
            assert ask(server, 4.0)[0] == 8.0
        held[0].close()


def test_passwords(tmp_path, monkeypatch):
    locked = Redis(tmp_path, "--requirepass", "redis123!")
    folder = lay_out(tmp_path / "m")
    try:
        with serving(folder, locked, password="redis123!") as server:
            asked_until_kept(server)
        with pytest.raises(UnavailableError, match=r"failed to connect to Redis .*WRONGPASS"):
            serving(folder, locked, password="wrong").start()
        with pytest.raises(UnavailableError, match="NOAUTH Authentication required"):
            serving(folder, locked).start()
        monkeypatch.setenv("TRITONCACHE_REDIS_PASSWORD", "redis123!")
        monkeypatch.setenv("TRITONCACHE_REDIS_USERNAME", "default")
        with serving(folder, locked) as server:
            asked_until_kept(server)
    finally:
        locked.stop()


def test_a_redis_that_can_not_be_reached_refuses_the_start(tmp_path, redis):
    redis.stop()
    with pytest.raises(UnavailableError, match=rf"failed to connect to Redis .127.0.0.1:{redis.port}.*efused"):
        serving(lay_out(tmp_path / "m"), redis).start()
    redis.start()


def test_the_usual_times_are_short():
    usual = RedisSettings("h", 1)
    assert max(usual.connect_timeout_ms, usual.socket_timeout_ms) <= 1000
