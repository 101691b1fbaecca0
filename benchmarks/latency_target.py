"""A latency target beside every fixed delay: `python -m benchmarks.latency_target`.

One server in this process, one model under several configurations: fixed delays, and the target. BENCH_MODEL says
which: `onnx` (a net of 21 million weights: a batch of 32 costs twice as much as one row, 14 ms, when nothing else uses
the machine), or `waiting` (8 ms and 0.2 ms a row during which the processor is free, as with an accelerator; the way to
measure on a machine that others use too). Two loads are offered to each:

- an open one: requests come at random (Poisson) at a rate that does not depend on the answers. Its figure is the
  highest rate at which the percentile is within the target, found by bisection.
- clients who each wait for their answer before they ask again. Its figure is the rate of answers; delays by which the
  percentile is above the target don't count.

The best fixed delay is found first, in one run of all; then it and the target are measured again, taking turns, and
the medians of these are compared. BENCH_ROUNDS (3) and BENCH_SECONDS (4, of each measurement) are read from the
environment.
"""

import gc
import os
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue

import numpy as np

from charonia.api import Server
from tests.models import onnx_models
from tests.models.repository import write_config, write_python_model

TARGET_MS = 40.0
PERCENTILE = 95
FIXED_MS = (0, 2, 5, 10, 15, 20, 25, 30)
CLIENTS = 48
LOWEST_PER_S, HIGHEST_PER_S, STEPS = 400.0, 4000.0, 6
# Not measured: until then the target's delay has been chosen.
WARM_S = 2.0
SECONDS = float(os.environ.get("BENCH_SECONDS", "4"))
MODEL = os.environ.get("BENCH_MODEL", "onnx")
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
WIDTHS = (1024, 4096, 4096, 10)
CONFIG = """
    max_batch_size: 64
    dynamic_batching {{ max_queue_delay_microseconds: {delay_us} }}
    instance_group [ {{ count: 1 kind: KIND_CPU }} ]
"""
ONNX = 'parameters { key: "intra_op_thread_count" value: { string_value: "1" } }\n'
WAITING = """
    input [ { name: "input" data_type: TYPE_FP32 dims: [ 1024 ] } ]
    output [ { name: "output" data_type: TYPE_FP32 dims: [ 1 ] } ]
    parameters { key: "execution" value: { string_value: "inline" } }
"""
CODE = """
    import time
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            time.sleep(0.008 + 0.0002 * len(requests))
            answer = pb_utils.Tensor("output", np.zeros((1, 1), np.float32))
            return [pb_utils.InferenceResponse([answer]) for _ in requests]
"""
WITH_TARGET = f'parameters {{ key: "latency_target_p{PERCENTILE}_ms" value: {{ string_value: "{TARGET_MS:g}" }} }}\n'
OURS = "target"


@dataclass
class Load:
    """What was offered and what came back within the measured time. Latencies in ms, from arrival to reply."""

    latencies: list[float] = field(default_factory=list)
    seconds: float = SECONDS
    mean_batch: float = 0.0

    @property
    def percentile_ms(self) -> float:
        return float(np.percentile(self.latencies, PERCENTILE)) if self.latencies else float("inf")

    @property
    def is_kept(self) -> bool:
        return self.percentile_ms <= TARGET_MS

    @property
    def per_s(self) -> float:
        return len(self.latencies) / self.seconds


def lay_out(root: Path) -> dict[str, str]:
    """The models, by the name of their setting."""
    names = {f"{delay_ms} ms": f"fixed_{delay_ms}" for delay_ms in FIXED_MS} | {OURS: "target"}
    for setting, name in names.items():
        is_ours = setting == OURS
        config = CONFIG.format(delay_us=0 if is_ours else int(name.removeprefix("fixed_")) * 1000)
        config += WITH_TARGET if is_ours else ""
        if MODEL == "waiting":
            write_python_model(root, name, config + WAITING, CODE)
        else:
            onnx_models.save(onnx_models.mlp(WIDTHS), root, name)
            write_config(root, name, config + ONNX)
    return names


class Asker:
    """Sends requests of one row to one model and measures those that arrive in a window of time."""

    def __init__(self, server: Server, name: str) -> None:
        self._model = server.model(name)
        self._row = np.random.default_rng(0).standard_normal((1, WIDTHS[0])).astype(np.float32)
        self._open = 0
        self._all_done = threading.Condition()
        self.load = Load()
        self._from, self._until = 0.0, 0.0

    def measure(self, offer: Callable[["Asker", float], None]) -> Load:
        start = time.monotonic()
        self._from, self._until = start + WARM_S, start + WARM_S + SECONDS
        counts: list[tuple[int, int]] = []
        threading.Timer(WARM_S, lambda: counts.append(self._counts())).start()
        offer(self, self._until)
        counts.append(self._counts())
        with self._all_done:
            self._all_done.wait_for(lambda: not self._open, 60)
        (rows, batches), (more_rows, more_batches) = counts[0], counts[-1]
        self.load.mean_batch = (more_rows - rows) / max(1, more_batches - batches)
        return self.load

    def _counts(self) -> tuple[int, int]:
        counted = self._model.statistics()
        return counted.inference_count, counted.execution_count

    def send(self, on_done: Callable[[], None] = lambda: None) -> None:
        begun = time.monotonic()
        with self._all_done:
            self._open += 1
        future = self._model.submit(input=self._row)

        def done(answered: object) -> None:
            future.result()
            if self._from <= begun < self._until:
                self.load.latencies.append((time.monotonic() - begun) * 1e3)
            with self._all_done:
                self._open -= 1
                if not self._open:
                    self._all_done.notify()
            on_done()

        future.add_done_callback(done)


def at_rate(per_s: float) -> Callable[[Asker, float], None]:
    rng = random.Random(7)

    def offer(asker: Asker, until: float) -> None:
        due = time.monotonic()
        while (due := due + rng.expovariate(per_s)) < until:
            wait = due - time.monotonic()
            if wait > 0:
                time.sleep(wait)
            asker.send()

    return offer


def by_clients(number: int) -> Callable[[Asker, float], None]:
    def offer(asker: Asker, until: float) -> None:
        free: SimpleQueue[None] = SimpleQueue()
        for _ in range(number):
            free.put(None)
        while time.monotonic() < until:
            free.get()
            asker.send(lambda: free.put(None))

    return offer


def highest_rate(server: Server, name: str, low: float = LOWEST_PER_S, high: float = HIGHEST_PER_S) -> float:
    """The highest rate of an open load at which the target is kept."""
    for _ in range(STEPS):
        rate = (low * high) ** 0.5
        load = Asker(server, name).measure(at_rate(rate))
        if load.is_kept:
            low = rate
        else:
            high = rate
    return low


def client_rate(server: Server, name: str) -> float:
    load = Asker(server, name).measure(by_clients(CLIENTS))
    return load.per_s if load.is_kept else 0.0


def compare(title: str, figure: Callable[[str], float], names: dict[str, str]) -> None:
    """The best fixed delay of all, and then the target against it."""
    found = {setting: figure(name) for setting, name in names.items() if setting != OURS}
    print(f"{title}: " + ", ".join(f"{setting} {per_s:,.0f}/s" for setting, per_s in found.items()), flush=True)
    best = max(found, key=lambda setting: found[setting])
    ours, theirs = [], []
    for _ in range(ROUNDS):
        theirs.append(figure(names[best]))
        ours.append(figure(names[OURS]))
    a, b = statistics.median(ours), statistics.median(theirs)
    met = "met" if a >= 0.95 * b else "MISSED"
    print(f"| {title} | {a:,.0f} | {b:,.0f} ({best}) | {a / b:.2f} × | ≥ 0.95 | {met} |", flush=True)


def batches(server: Server, names: dict[str, str], per_s: float) -> None:
    """At a rate that most delays can serve: which batches they make of it, and which of them keep the target."""
    kept: list[tuple[float, str]] = []
    for setting, name in names.items():
        load = Asker(server, name).measure(at_rate(per_s))
        print(f"  {setting}: p{PERCENTILE} {load.percentile_ms:.1f} ms, {load.mean_batch:.1f} rows a batch", flush=True)
        if load.is_kept:
            kept.append((load.mean_batch, setting))
    best = max((each for each in kept if each[1] != OURS), default=(0.0, "none"))
    ours = next((rows for rows, setting in kept if setting == OURS), 0.0)
    ratio = ours / best[0] if best[0] else 0.0
    met = "met" if ratio >= 0.95 else "MISSED"
    title = f"rows a batch at {per_s:,.0f} requests a second"
    print(f"| {title} | {ours:.1f} | {best[0]:.1f} ({best[1]}) | {ratio:.2f} × | ≥ 0.95 | {met} |", flush=True)


def main() -> None:
    wanted = sys.argv[1:] or ["open", "clients", "batches"]
    sys.setswitchinterval(1e-4)  # as `charonia serve` does
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        names = lay_out(root)
        with Server(root, log_info=False) as server:
            gc.freeze()
            for name in names.values():
                Asker(server, name).measure(by_clients(2))
            print(f"p{PERCENTILE} ≤ {TARGET_MS:g} ms\n| load | target | best fixed delay | ratio | target | |")
            if "open" in wanted:
                compare("open load, requests a second", lambda name: highest_rate(server, name), names)
            if "clients" in wanted:
                compare(f"{CLIENTS} clients, requests a second", lambda name: client_rate(server, name), names)
            if "batches" in wanted:
                for per_s in (250.0, 750.0):
                    batches(server, names, per_s)


if __name__ == "__main__":
    main()
