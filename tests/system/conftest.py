"""The command `charonia serve` as a process of its own, on free ports."""

import http.client
import json
import queue
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

PATIENCE_S = 30.0
_FREE_PORTS = {"http": "HTTPService", "grpc": "GRPCInferenceService", "metrics": "Metrics Service"}


class Answer:
    """An HTTP answer, read to its end."""

    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = response.headers
        self.text = response.read().decode()

    def json(self):
        return json.loads(self.text)


class Serving:
    """A running `charonia serve`. Its log is read by a thread, so waiting for a line never polls."""

    def __init__(self, *flags: str, ports: bool = True) -> None:
        free = [f"--{name}-port=0" for name in _FREE_PORTS] if ports else []
        self.process = subprocess.Popen(
            [sys.executable, "-m", "charonia", "serve", *free, *flags],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            bufsize=1,
        )
        self.log: list[str] = []
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.ports: dict[str, int] = {}

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line.rstrip("\n"))
        self._lines.put(None)

    def wait_for(self, pattern: str) -> re.Match[str]:
        """The first line from now on that matches."""
        while True:
            try:
                line = self._lines.get(timeout=PATIENCE_S)
            except queue.Empty:
                pytest.fail(f"the server does not log {pattern!r}; its log:\n{self.text}")
            if line is None:
                pytest.fail(f"the server ended before it logged {pattern!r}; its log:\n{self.text}")
            self.log.append(line)
            match = re.search(pattern, line)
            if match:
                return match

    def started(self) -> "Serving":
        """Wait until the models are loaded and the ports are known."""
        for name in ("grpc", "http", "metrics"):
            self.ports[name] = int(self.wait_for(rf"Started {_FREE_PORTS[name]} at \S+:(\d+)")[1])
        return self

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.ports["http"], timeout=PATIENCE_S)

    def ask(self, method: str, path: str, body: object = None, *, port: str = "http") -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.ports[port], timeout=PATIENCE_S)
        try:
            connection.request(method, path, None if body is None else json.dumps(body))
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def signal(self, number: int = signal.SIGTERM) -> None:
        self.process.send_signal(number)

    def exit_code(self) -> int:
        """Wait for the end; afterwards `log` has every line."""
        code = self.process.wait(PATIENCE_S)
        self._reader.join(PATIENCE_S)
        while (line := self._lines.get(timeout=PATIENCE_S)) is not None:
            self.log.append(line)
        self._lines.put(None)
        return code

    @property
    def text(self) -> str:
        return "\n".join(self.log)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@pytest.fixture
def serve() -> Iterator:
    """Starts servers with the flags given, and ends them after the test."""
    running: list[Serving] = []

    def start(*flags: str, ports: bool = True) -> Serving:
        running.append(Serving(*flags, ports=ports))
        return running[-1]

    yield start
    for each in running:
        each.close()


class Repository:
    """A model repository of identity models: OUTPUT0 is INPUT0, FP32 of any length."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(parents=True, exist_ok=True)

    @property
    def flag(self) -> str:
        return f"--model-repository={self.path}"

    def add(self, name: str, more: str = "", *, delay_ms: int = 0, versions: tuple[int, ...] = (1,)) -> None:
        for version in versions:
            (self.path / name / str(version)).mkdir(parents=True, exist_ok=True)
        (self.path / name / "config.pbtxt").write_text(
            f"""
            backend: "identity"
            max_batch_size: 4
            input {{ name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }}
            output {{ name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }}
            parameters {{ key: "execute_delay_ms" value {{ string_value: "{delay_ms}" }} }}
            {more}
            """
        )

    def add_slow_to_load(self, name: str, delay_ms: int) -> None:
        """Its warm-up takes that long."""
        self.add(
            name,
            """model_warmup { name: "slow" batch_size: 1
                 inputs { key: "INPUT0" value { data_type: TYPE_FP32 dims: [ 1 ] zero_data: true } } }""",
            delay_ms=delay_ms,
        )

    def add_broken(self, name: str) -> None:
        self.add(name)
        with (self.path / name / "config.pbtxt").open("a") as config:
            config.write("\nno_such_field: 1\n")


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path / "models")


def infer_body(*values: float) -> dict[str, object]:
    """A request for one row of an identity model."""
    return {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, len(values)], "data": list(values)}]}
