"""Tensors of 4 MB in system shared memory, beside a real Triton: `python -m benchmarks.shared_memory`.

The Python models run unchanged on both servers. Environment and arguments as for `python -m benchmarks`.
"""

import os
import tempfile
from pathlib import Path

import numpy as np
import tritonclient.http as httpclient
from tritonclient.utils import shared_memory as shm

from benchmarks.repositories import ECHO, ONE, ONE_CPU, write_python
from benchmarks.servers import Running, running
from benchmarks.table import Row, analysed, begin_comparison, per_s, print_rows

ELEMENTS = 1 << 20
BYTES = 4 * ELEMENTS
TENSORS = ONE.format("TYPE_FP32", "INPUT0", "[ -1 ]", "OUTPUT0", "[ -1 ]")
# As the echo, but what it answers is new memory.
PLUS_ONE = ECHO.replace('"OUTPUT0", array', '"OUTPUT0", array + 1')
SHAPE = ("--shape", f"INPUT0:{ELEMENTS}")
REGIONS = ("--shared-memory=system", f"--output-shared-memory-size={BYTES}")


def build(repository: Path) -> None:
    write_python(repository, "echo", ONE_CPU + TENSORS, ECHO)
    write_python(repository, "plus_one", ONE_CPU + TENSORS, PLUS_ONE)


def rows() -> list[Row]:
    table = []
    for model, what in (("echo", "Python model that gives its input back"), ("plus_one", "Python model that adds 1")):
        for protocol in ("http", "grpc"):
            for concurrency in (1, 4):
                shared = analysed(model, protocol, concurrency, *SHAPE, *REGIONS)
                table.append(Row(f"{what}, 4 MB c={concurrency} {protocol}", shared, shared, per_s, 1.5))
    return table


def check(server: Running, model: str, added: float) -> None:
    """The answers must be right before anything is timed."""
    given = np.random.default_rng(1).random(ELEMENTS, np.float32)
    name = f"charonia_bench_{os.getpid()}"
    region = shm.create_shared_memory_region(name, f"/{name}", 2 * BYTES)
    client = httpclient.InferenceServerClient(server.address("http"))
    try:
        shm.set_shared_memory_region(region, [given])
        client.register_system_shared_memory(name, f"/{name}", 2 * BYTES)
        tensor = httpclient.InferInput("INPUT0", [ELEMENTS], "FP32")
        tensor.set_shared_memory(name, BYTES)
        output = httpclient.InferRequestedOutput("OUTPUT0")
        output.set_shared_memory(name, BYTES, BYTES)
        client.infer(model, [tensor], outputs=[output])
        found = shm.get_contents_as_numpy(region, np.float32, [ELEMENTS], BYTES)
        np.testing.assert_array_equal(found, given + np.float32(added))
        client.unregister_system_shared_memory(name)
    finally:
        client.close()
        shm.destroy_shared_memory_region(region)


def main() -> None:
    begin_comparison()
    with tempfile.TemporaryDirectory() as folder:
        repository = Path(folder)
        build(repository)
        with (
            running("triton", repository) as theirs,
            running("charonia", repository, "--allow-client-shm=true") as mine,
        ):
            for server in (theirs, mine):
                check(server, "echo", 0)
                check(server, "plus_one", 1)
            print_rows(rows(), mine, theirs)


if __name__ == "__main__":
    main()
