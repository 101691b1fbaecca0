"""The runtime alone: what the machine gives without any server."""

import threading
import time
from pathlib import Path

import numpy as np
import onnxruntime


def sessions_per_s(model: Path, threads: int, seconds: float) -> float:
    """Runs a second of `threads` loops, each over its own session with one thread, one row at a time."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    feed = {"input": np.random.default_rng(0).random((1, 3, 224, 224), np.float32)}
    loops = [onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"]) for _ in range(threads)]
    counts = [0] * threads
    end = time.monotonic() + seconds

    def loop(index: int) -> None:
        while time.monotonic() < end:
            loops[index].run(None, feed)
            counts[index] += 1

    workers = [threading.Thread(target=loop, args=(index,)) for index in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return sum(counts) / seconds
