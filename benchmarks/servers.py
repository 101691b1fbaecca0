"""The servers that are compared, as child processes."""

import contextlib
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import psutil

READY_TIMEOUT_S = 60


@dataclass(frozen=True)
class Running:
    """A server that is ready, with its ports."""

    name: str
    process: psutil.Process
    http: int
    grpc: int

    def address(self, protocol: str) -> str:
        return f"localhost:{self.grpc if protocol == 'grpc' else self.http}"

    def cpu_s(self) -> float:
        """CPU seconds of the server and its children so far."""
        processes = [self.process, *self.process.children(recursive=True)]
        return sum(sum(process.cpu_times()[:2]) for process in processes)

    def rss_bytes(self) -> int:
        processes = [self.process, *self.process.children(recursive=True)]
        return sum(process.memory_info().rss for process in processes)


def charonia_command(repository: Path, ports: list[int]) -> list[str]:
    return [sys.executable, "-m", "charonia", "serve", f"--model-repository={repository}", *_port_flags(ports)]


def triton_command(repository: Path, ports: list[int]) -> list[str] | None:
    """The real server: TRITONSERVER names its binary, or a script that sets its libraries up."""
    binary = os.environ.get("TRITONSERVER")
    if binary is None:
        return None
    backends = os.environ.get("TRITON_BACKENDS")
    flags = [f"--backend-directory={backends}"] if backends else []
    return [binary, f"--model-repository={repository}", *flags, *_port_flags(ports)]


def _port_flags(ports: list[int]) -> list[str]:
    return [f"--{name}-port={port}" for name, port in zip(("http", "grpc", "metrics"), ports, strict=True)]


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for listener in sockets:
            listener.bind(("127.0.0.1", 0))
        return [listener.getsockname()[1] for listener in sockets]
    finally:
        for listener in sockets:
            listener.close()


@contextlib.contextmanager
def running(name: str, repository: Path, *flags: str) -> Iterator[Running]:
    """Start the server called `name` ("charonia" or "triton") on `repository`; it is ready inside the block."""
    ports = free_ports(3)
    command = {"charonia": charonia_command, "triton": triton_command}[name](repository, ports)
    if command is None:
        raise LookupError("set TRITONSERVER to compare with a real Triton")
    with open(os.devnull, "wb") as nowhere:
        log = None if os.environ.get("BENCH_VERBOSE") else nowhere
        process = subprocess.Popen([*command, *flags], stdout=log, stderr=log)
        try:
            wait_ready(process, ports[0])
            yield Running(name, psutil.Process(process.pid), ports[0], ports[1])
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def wait_ready(process: "subprocess.Popen[bytes]", port: int) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}; BENCH_VERBOSE=1 shows its log")
        with contextlib.suppress(OSError), urllib.request.urlopen(f"http://localhost:{port}/v2/health/ready") as answer:
            if answer.status == 200:
                return
        time.sleep(0.01)
    raise TimeoutError(f"not ready after {READY_TIMEOUT_S} s")
