"""CPU time of the Python part of a request's way, without sockets and other threads: `python -m benchmarks.hot_path`.

A fake wire hands out batches of equal calls; one instance of add/sub as ONNX takes, executes and answers them.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks import repositories
from charonia.frontend.ingress import Ingress, WireBell
from charonia.options import ServerOptions
from charonia.server import Server

CALLS = 64_000


class FakeInput(bytearray):
    """Stands for InputTensor."""

    device = "cpu"
    owned = True
    nbytes = 64

    def host(self):
        return self


class FakeCall:
    """Stands for InferCall."""

    defect = None
    is_cancelled = False

    def __init__(self, key: int, tensors: list[FakeInput]) -> None:
        self.key = key
        self.parts = (
            key, "addsub_onnx", "", "", [(f"INPUT{i}", "FP32", (1, 16), each) for i, each in enumerate(tensors)],
            (), None, None, False, time.monotonic_ns(), 0, 77, 1, False, False,
        )  # fmt: skip

    def unpack(self):
        return self.parts


class FakeWire:
    """Stands for WireServer: hands out `size` calls a time."""

    def __init__(self, size: int) -> None:
        tensors = [FakeInput(np.arange(16, dtype=np.float32).tobytes()) for _ in range(2)]
        self.calls = [FakeCall(key, tensors) for key in range(size)]
        self.answered = 0

    def take_route(self, route, max_items, timeout_s):
        return self.calls

    def reply_batch(self, replies):
        self.answered += len(replies)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = repositories.build(Path(folder))
        options = ServerOptions.of(
            model_repository=[str(root / "charonia")], allow_http=False, allow_grpc=False, allow_metrics=False,
            model_control_mode="explicit", load_model=["addsub_onnx"], log_info=False,
        )  # fmt: skip
        server = Server(options)
        server.open()
        server.load()
        model = server.models.find("addsub_onnx", -1)
        runner = model.instances[0]
        model.scheduler._idle = 0
        for size in [int(text) for text in sys.argv[1:]] or [1, 8, 32]:
            wire = FakeWire(size)
            ingress = Ingress(wire, server.engine, server.lifecycle, print)
            bell = WireBell(wire, 1, ingress)
            best = min(measure(model.scheduler, runner, bell, size) for _ in range(5))
            print(f"batches of {size:2}: {best:.1f} µs of CPU for each request")
        server.stop()


def measure(scheduler, runner, bell, size: int) -> float:
    rounds = CALLS // size // 4
    start = time.thread_time()
    for _ in range(rounds):
        runner._drive(scheduler.next_batch(bell))
    return (time.thread_time() - start) * 1e6 / (rounds * size)


if __name__ == "__main__":
    main()
