"""What the composition root itself decides: the health table, liveness, the end of a thread."""

import threading
from dataclasses import dataclass

from charonia.observe.log import ServerLog
from charonia.options import ServerOptions
from charonia.repository.directory import Directory
from charonia.repository.states import ModelRecord, State, VersionRecord
from charonia.server import Server, readiness_table


class Lines:
    def __init__(self):
        self.text = ""

    def write(self, data):
        self.text += data.decode()

    def close(self): ...


@dataclass
class Loaded:
    live_instances: int
    route: int
    version_text: str


def test_the_health_table_has_every_version_and_the_default():
    models = {
        "m": ModelRecord(
            "m",
            versions={
                1: VersionRecord(1, State.READY, loaded=Loaded(1, 11, "1")),
                2: VersionRecord(2, State.READY, loaded=Loaded(0, 12, "2")),
                3: VersionRecord(3, State.UNAVAILABLE, "broken"),
            },
        ),
        "unread": ModelRecord("unread", reason="no config"),
    }
    assert readiness_table(Directory.of(models)) == {
        ("m", "1"): (True, 11),
        ("m", "2"): (False, 12),
        ("m", "3"): (False, 0),
        ("m", ""): (False, 12),
        ("unread", ""): (False, 0),
    }


def closed(**settings):
    """A server without listeners."""
    return ServerOptions(allow_http=False, allow_grpc=False, allow_metrics=False, **settings)


def test_a_server_is_ready_between_load_and_stop(tmp_path):
    server = Server(closed(model_repository=[str(tmp_path)]), ServerLog(sink=Lines()))
    server.open()
    assert (server.live, server.ready) == (True, False)
    assert server.load().complete
    assert (server.live, server.ready) == (True, True)
    assert server.stop()
    assert not server.ready


def test_a_thread_that_dies_is_logged_and_ends_liveness(tmp_path):
    lines = Lines()
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
