"""A client for payloads that perf_analyzer can't make to measure: strings of 50 to 500 bytes, tensors of 4 MB."""

import random
import threading
import time

import numpy as np
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient

from benchmarks.clients import WINDOW_MS, Load
from benchmarks.servers import Running


def strings() -> np.ndarray:
    """1,000 strings of 50 to 500 bytes."""
    source = random.Random(3)
    array = np.empty(1000, np.object_)
    array[:] = [source.randbytes(source.randint(50, 500)) for _ in range(1000)]
    return array


def echo(server: Running, model: str, protocol: str, array: np.ndarray, datatype: str, concurrency: int) -> Load:
    """`concurrency` threads send `array` and check what comes back; the first answer of each is compared in full."""
    client_module = grpcclient if protocol == "grpc" else httpclient
    counts, errors = [0] * concurrency, []
    end = time.monotonic() + WINDOW_MS * 3 / 1000

    def work(index: int) -> None:
        try:
            with client_module.InferenceServerClient(server.address(protocol)) as client:
                tensor = client_module.InferInput("INPUT0", array.shape, datatype)
                tensor.set_data_from_numpy(array)
                answer = client.infer(model, [tensor]).as_numpy("OUTPUT0")
                np.testing.assert_array_equal(answer, array)
                while time.monotonic() < end:
                    client.infer(model, [tensor])
                    counts[index] += 1
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(index,)) for index in range(concurrency)]
    before_s, start = server.cpu_s(), time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    total, seconds = sum(counts), time.monotonic() - start
    return Load(total / seconds, 1e6 * concurrency * seconds / total, (server.cpu_s() - before_s) * 1e6 / total)
