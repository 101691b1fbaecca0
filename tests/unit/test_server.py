"""What the composition root itself decides: liveness, the end of a thread."""

import threading

import numpy as np
import pytest

from charonia.core.errors import UnavailableError
from charonia.core.tensor import Tensor
from charonia.observe.log import LogSettings, ServerLog
from charonia.options import ServerOptions
from charonia.server import Server
from charonia.testing.log import KeptLines
from charonia.testing.requests import KeptReplies, make_request
from tests.models import onnx_models
from tests.models.repository import write_config


def closed(**settings):
    """A server without listeners."""
    return ServerOptions(allow_http=False, allow_grpc=False, allow_metrics=False, **settings)


def test_a_server_is_ready_between_load_and_stop(tmp_path):
    server = Server(closed(model_repository=[str(tmp_path)]), ServerLog(sink=KeptLines()))
    server.open()
    assert (server.live, server.ready) == (True, False)
    assert server.load().complete
    assert (server.live, server.ready) == (True, True)
    assert server.stop()
    assert not server.ready


def test_a_thread_that_dies_is_logged_and_ends_liveness(tmp_path):
    lines = KeptLines()
    server = Server(closed(model_repository=[str(tmp_path)]), ServerLog(sink=lines))
    server.open()
    server.load()
    reached = threading.Event()

    def bug():
        reached.set()
        raise ZeroDivisionError("a bug of ours")

    server._timer.at(0, bug)
    assert reached.wait(10)
    server._timer.stop()  # joins the thread, so that its last words are written
    assert (server.live, server.ready) == (False, False)
    assert "thread 'timer' ended by an error" in lines.text
    assert "a bug of ours" in lines.text
    server.stop()


class Answers(KeptReplies):
    """Tells when one has come."""

    def __init__(self):
        super().__init__()
        self.has_come = threading.Event()

    def send(self, replies):
        super().send(replies)
        self.has_come.set()


def test_who_waits_for_an_instance_that_ends_by_a_bug_is_told(tmp_path):
    onnx_models.save(onnx_models.identity("FP32", ["N", 1]), tmp_path, "m")
    lines = KeptLines()
    server = Server(closed(model_repository=[str(tmp_path)]), ServerLog(sink=lines))
    server.open()
    assert server.load().complete
    (runner,) = server.lifecycle.find("m").instances
    inside, others_wait = threading.Event(), threading.Event()

    def bug(batch):
        inside.set()
        others_wait.wait(20)
        raise ZeroDivisionError("a bug of ours")

    runner.run_batch = bug
    executed, waiting, late = [(channel, make_request(channel)) for channel in (Answers(), Answers(), Answers())]
    server.engine.submit(executed[1])
    assert inside.wait(20)
    server.engine.submit(waiting[1])
    others_wait.set()
    assert waiting[0].has_come.wait(20)
    server.engine.submit(late[1])
    reason = "instance m_0 ended by a fault of the server: ZeroDivisionError('a bug of ours')"
    assert executed[0].error_of(executed[1]) == reason
    assert isinstance(waiting[0].of(waiting[1]).error, UnavailableError)
    assert waiting[0].error_of(waiting[1]).endswith(f"model 'm' was unloaded: {reason}")
    assert late[0].error_of(late[1]).endswith(f"'m' has no available versions (version 1: {reason})")
    assert server.lifecycle.directory.index()[0].reason == reason
    assert not server.live
    assert "thread 'm_0' ended by an error" in lines.text
    assert server.stop()


KEEPS = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def initialize(self, args):
        self.senders = []

    def execute(self, requests):
        self.senders += [request.get_response_sender() for request in requests]
"""


@pytest.mark.parametrize(("kept", "said"), [(1, "1 request that is"), (3, "3 requests that are")])
def test_a_stop_tells_what_was_not_answered_in_time(tmp_path, kept, said):
    onnx_models.save(onnx_models.identity("FP32", ["N", 2]), tmp_path, "idle")
    tensors = 'input { name: "X" data_type: TYPE_FP32 dims: 1 } output { name: "Y" data_type: TYPE_FP32 dims: 1 }'
    inline = 'parameters { key: "execution" value { string_value: "inline" } }'
    for name in ("keeps", "busy"):
        config = f'backend: "python" model_transaction_policy {{ decoupled: true }} {tensors} {inline}'
        (write_config(tmp_path, name, config) / "1").mkdir()
        (tmp_path / name / "1" / "model.py").write_text(KEEPS)
    lines = KeptLines()
    server = Server(closed(model_repository=[str(tmp_path)], exit_timeout_secs=0), ServerLog(sink=lines))
    server.open()
    assert server.load().complete
    streams = [
        server.client.stream(name, [Tensor.from_numpy("X", np.zeros(1, np.float32), owned=True)], lambda result: result)
        for name, count in (("keeps", kept), ("busy", 2))
        for _ in range(count)
    ]
    assert not server.stop()
    ends = "version 1 still has {} not answered to the end, when the exit timeout of 0 s is over"
    assert f"model 'keeps' {ends.format(said)}" in lines.text
    assert f"model 'busy' {ends.format('2 requests that are')}" in lines.text
    assert lines.text.count("not answered to the end") == 2
    del streams


class Heard(KeptLines):
    """Tells when a line has certain words."""

    def __init__(self, words):
        super().__init__()
        self._words = words.encode()
        self.heard = threading.Event()

    def write(self, data):
        super().write(data)
        if self._words in data:
            self.heard.set()


def test_a_warm_up_without_end_holds_up_no_stop(tmp_path):
    onnx_models.save(onnx_models.identity("FP32", ["N", 2]), tmp_path, "m")
    data = 'inputs { key: "INPUT0" value { data_type: TYPE_FP32 dims: 2 zero_data: true } }'
    write_config(tmp_path, "m", f'model_warmup {{ name: "w" batch_size: 1 count: 4294967295 {data} }}')
    lines = Heard("for iteration 3")
    settings = closed(model_repository=[str(tmp_path)], exit_timeout_secs=20)
    server = Server(settings, ServerLog(LogSettings(verbose_level=1), lines))
    server.open()
    loading = threading.Thread(target=server.load)
    loading.start()
    assert lines.heard.wait(20)
    assert server.stop()
    loading.join(20)
    assert not loading.is_alive()
    assert "not loaded: the server is stopping" in lines.text
