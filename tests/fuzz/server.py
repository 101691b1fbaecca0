"""Broken connections to a server that listens: `python -m tests.fuzz.server --secs 60`, or `make fuzz TARGET=server`.

The same seed sends the same bytes. What is found is kept in `tests/fuzz/found`, which the short run of the tests
sends again.
"""

import argparse
import gc
import json
import re
import socket
import struct
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from pathlib import Path
from random import Random

import numpy as np
import psutil

from charonia.api import Server
from tests.every_door.doors import DOORS, open_door
from tests.fuzz import streams
from tests.models import onnx_models
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_config

FOUND = Path(__file__).parent / "found"
CLIENTS = 4
# An answer that needs nothing more from the client is there by now, mostly.
ANSWER_S = 0.01
# What the server may keep of all it was sent: buffers, pools, what Python's allocator holds. A leak grows on.
MOST_GROWTH_BYTES = 96 << 20
# What a wrong request must never get. 503 is for a server that is full.
SERVER_ERROR = re.compile(rb"^HTTP/1\.[01] (500|502|504) ", re.MULTILINE)
# `m` is what the connections ask for; they may unload it. `kept` is named by none of them.
MODELS = (streams.MODEL, "n", "kept")


class Target:
    """A server in this process, and what must still be so after anything that clients did."""

    def __init__(self, folder: Path) -> None:
        for name in MODELS:
            onnx_models.save(onnx_models.identity("FP32"), folder / "models", name)
            write_config(folder / "models", name, "max_batch_size: 8 dynamic_batching { }")
        self.log = folder / "log"
        self.server = Server(
            folder / "models",
            http_port=0,
            grpc_port=0,
            model_control_mode="explicit",
            load_model=list(MODELS),
            log_file=str(self.log),
            exit_timeout_secs=5,
        ).start()
        self.threads = threads()
        self.is_answered()

    def close(self) -> None:
        self.server.stop()

    def connect(self, door: str) -> socket.socket:
        return socket.create_connection(("127.0.0.1", self.server.ports[door] or 0), timeout=PATIENCE_S)

    def send(self, connection: streams.Connection, *, rude: bool) -> bytes:
        """Send it and read a while. Rude clients reset the connection without reading."""
        door, sent = connection
        with self.connect(door) as client, suppress(ConnectionError):
            client.sendall(sent)
            if not rude:
                return read(client)
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        return b""

    def check(self, connection: streams.Connection, *, rude: bool) -> None:
        """Raises AssertionError when it was answered as no request may be."""
        answer = self.send(connection, rude=rude)
        assert not SERVER_ERROR.search(answer), answer

    def is_answered(self) -> None:
        """Right requests are, through every door."""
        sent = np.array([[1.5, -2.0]], np.float32)
        for name in DOORS:
            door = open_door(name, self.server)
            np.testing.assert_array_equal(door.infer("kept", {"INPUT0": sent})["OUTPUT0"], sent)
            door.close()

    def check_whole(self) -> None:
        """Nothing died, nothing is left over, nothing unexpected was logged."""
        self.is_answered()
        assert self.threads <= threads(), f"threads died: {self.threads - threads()}"
        model = self.server.model("kept").loaded
        assert model.wait_idle(PATIENCE_S)
        assert model.pending_count == 0
        logged = self.log.read_text() if self.log.exists() else ""
        assert "Traceback" not in logged, logged[-3000:]
        assert "panicked" not in logged, logged[-3000:]


def read(client: socket.socket) -> bytes:
    answer = b""
    client.settimeout(ANSWER_S)
    with suppress(TimeoutError, ConnectionError):
        while piece := client.recv(65536):
            answer += piece
    return answer


def threads() -> set[tuple[str, int]]:
    """Name and number of each thread of the process that serves: the wire's and Python's."""
    found = {(thread.name, thread.native_id or 0) for thread in threading.enumerate()}
    for task in Path("/proc/self/task").iterdir():
        with suppress(FileNotFoundError):  # it has ended meanwhile
            found.add(((task / "comm").read_text().strip(), int(task.name)))
    return {(name, number) for name, number in found if "charonia" in name}


def memory_bytes() -> int:
    gc.collect()
    return psutil.Process().memory_info().rss


def attack(target: Target, seed: int, until: float, most: int | None = None) -> int:
    """Send broken connections until the moment, or so many; how many it were. Keeps the one that broke something."""
    chance = Random(seed)
    for number in count():
        if time.monotonic() > until or number == most:
            return number
        connection = streams.broken(chance)
        try:
            target.check(connection, rude=chance.random() < 0.1)
        except BaseException:
            keep(connection, f"{seed}_{number}")
            raise
    raise AssertionError("unreachable")


def keep(connection: streams.Connection, name: str) -> None:
    door, sent = connection
    FOUND.mkdir(exist_ok=True)
    (FOUND / f"{door}_{name}").write_bytes(sent)


def kept() -> list[streams.Connection]:
    """What was found before."""
    return [(path.name.split("_")[0], path.read_bytes()) for path in sorted(FOUND.glob("*_*"))]


def attack_together(target: Target, seed: int, until: float, most: int | None = None) -> int:
    """Several clients at a time; how many connections they made."""
    with ThreadPoolExecutor(CLIENTS) as pool:
        futures = [pool.submit(attack, target, seed * CLIENTS + n, until, most) for n in range(CLIENTS)]
        return sum(future.result() for future in futures)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--secs", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    end = time.monotonic() + arguments.secs
    with tempfile.TemporaryDirectory() as folder:
        target = Target(Path(folder))
        before = None
        for seed in count(arguments.seed):
            made = attack_together(target, seed, min(end, time.monotonic() + 10))
            target.check_whole()
            used = memory_bytes()
            before = before or used
            print(json.dumps({"seed": seed, "connections": made, "memory_mb": used >> 20}), flush=True)
            assert used - before < MOST_GROWTH_BYTES, f"{(used - before) >> 20} MiB more than at first"
            if time.monotonic() > end:
                break
        target.close()


if __name__ == "__main__":
    main()
