"""What the composition root itself decides: liveness, the end of a thread."""

import threading

from charonia.observe.log import ServerLog
from charonia.options import ServerOptions
from charonia.server import Server
from charonia.testing.log import KeptLines


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
