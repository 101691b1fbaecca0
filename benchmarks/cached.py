"""Requests that the response cache answers, beside a real Triton: `python -m benchmarks.cached`.

The same Python models on both servers, each with its local cache; every measured request is a hit. Environment and
arguments as for `python -m benchmarks`; TRITON_CACHES names the folder of the real server's cache libraries where that
is not its usual one.
"""

import os
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import tritonclient.grpc as grpcclient

from benchmarks.repositories import ECHO, ONE, ONE_CPU, write_python
from benchmarks.servers import Running, running
from benchmarks.table import Row, analysed, begin_comparison, latency_us, per_s, print_rows

CACHE = "--cache-config=local,size=268435456"
CACHED = "response_cache { enable: true }\n"
SIZES = {"64 B": 16, "64 KiB": 16 * 1024, "4 MiB": 1024 * 1024}


def build(repository: Path) -> None:
    for number, elements in enumerate(SIZES.values()):
        tensors = ONE.format("TYPE_FP32", "INPUT0", f"[ {elements} ]", "OUTPUT0", f"[ {elements} ]")
        write_python(repository, f"echo_{number}", "max_batch_size: 8\n" + ONE_CPU + tensors + CACHED, ECHO)


def rows() -> list[Row]:
    table = []
    for protocol in ("http", "grpc"):
        for number, size in enumerate(SIZES):
            for concurrency in (1, 16):
                asked = analysed(f"echo_{number}", protocol, concurrency)
                table.append(Row(f"cached, {size} c={concurrency} {protocol}", asked, asked, per_s, 1.0))
        asked = analysed("echo_0", protocol, 1)
        table.append(Row(f"cached, 64 B c=1 {protocol}, latency in µs", asked, asked, latency_us, 1.0, at_most=True))
    return table


def check(server: Running) -> None:
    """The second answer comes from the cache and is the first one."""
    vector = np.arange(16, dtype=np.float32).reshape(1, 16)
    tensor = grpcclient.InferInput("INPUT0", vector.shape, "FP32").set_data_from_numpy(vector)
    with grpcclient.InferenceServerClient(server.address("grpc")) as client:
        for _ in range(2):
            np.testing.assert_array_equal(client.infer("echo_0", [tensor]).as_numpy("OUTPUT0"), vector)
        (found,) = client.get_inference_statistics("echo_0").model_stats
    assert found.inference_stats.cache_hit.count == 1, f"{server.name} does not cache"


def main() -> None:
    begin_comparison()
    folder_of_caches = os.environ.get("TRITON_CACHES")
    theirs_only = [f"--cache-directory={folder_of_caches}"] if folder_of_caches else []
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        build(Path(folder))
        theirs = stack.enter_context(running("triton", Path(folder), CACHE, *theirs_only))
        mine = stack.enter_context(running("charonia", Path(folder), CACHE))
        for server in (theirs, mine):
            check(server)
        print_rows(rows(), mine, theirs)


if __name__ == "__main__":
    main()
