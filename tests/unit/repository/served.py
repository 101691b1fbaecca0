"""A repository of identity models and a server without ports over it."""

import os
import shutil
from pathlib import Path

from charonia.observe.log import ServerLog
from charonia.options import ServerOptions
from charonia.repository.polling import RepositoryPolling
from charonia.repository.source import look_around
from charonia.server import Server
from charonia.testing.log import KeptLines

PATIENCE_S = 20.0
CONFIG = """
backend: "identity"
max_batch_size: %d
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
"""
JSON = (
    '{"backend": "identity", "max_batch_size": %d,'
    ' "input": [{"name": "INPUT0", "data_type": "TYPE_FP32", "dims": [-1]}],'
    ' "output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32", "dims": [-1]}]}'
)


class Repository:
    """Model folders; every write has a time of its own, whatever the clock's resolution."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._time_ns = 10**18
        path.mkdir(parents=True, exist_ok=True)

    def add(self, name: str, *versions: int, more: str = "", batch: int = 4) -> None:
        for version in versions:
            self.write(f"{name}/{version}/model", "")
        self.write(f"{name}/config.pbtxt", CONFIG % batch + more)

    def write(self, name: str, text: str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        self._time_ns += 1
        os.utime(path, ns=(self._time_ns, self._time_ns))

    def remove(self, name: str) -> None:
        shutil.rmtree(self.path / name)


class Served:
    """The server with what tests ask of it."""

    def __init__(self, *repositories: Repository, mode: str, **options: object) -> None:
        self.lines = KeptLines()
        paths = [str(each.path) for each in repositories]
        settings = {"model_repository": paths, "model_control_mode": mode, "repository_poll_secs": 0, **options}
        closed = {"allow_http": False, "allow_grpc": False, "allow_metrics": False}
        self.server = Server(ServerOptions.of(**closed, **settings), ServerLog(sink=self.lines))
        self.server.open()
        self.report = self.server.load()
        self.control = self.server.control

    def version(self, name: str, version: int = -1):
        """The loaded version itself: the same object as long as it was not loaded anew."""
        return self.server.models.find(name, version)

    def index(self, name: str | None = None):
        rows = [(each.name, each.version, each.state and str(each.state)) for each in self.server.models.index()]
        return [row[1:] for row in rows if row[0] == name] if name else rows

    def reason(self, name: str) -> str:
        return next(each.reason for each in self.server.models.index() if each.name == name)

    def settle(self) -> None:
        assert self.server.lifecycle.settle(PATIENCE_S)

    def close(self) -> None:
        self.server.stop()


def polling_of(server: Server) -> RepositoryPolling:
    """The server's own, but that nothing is looked at by itself."""
    parts = server._repositories, server._operations, server.lifecycle, server.log, server._remarks
    return RepositoryPolling(*parts, threads=2)


class Polling:
    """Looks when the test says so."""

    def __init__(self, served: Served) -> None:
        self.polling = polling_of(served.server)
        self.served = served
        self.polling.begin(look_around(served.server._repositories)[1])

    def look(self, times: int = 2) -> None:
        for _ in range(times):
            for each in self.polling.look():
                each.result(PATIENCE_S)
        self.served.settle()
