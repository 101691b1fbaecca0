"""Everything at once for minutes: `python -m benchmarks.soak [seconds]`. Is a request lost, does anything grow?

Clients of every kind check each answer; some cancel, or leave in the middle of a stream; processes of models are
killed and models reloaded meanwhile. A request may fail where its process was killed under it; it may not hang, and not
be wrong. At the end the server's memory, descriptors and shared memory are compared with what they were after the first
tenth of the time.
"""

import json
import random
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import numpy as np
import psutil
import requests
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from benchmarks import composed
from benchmarks.servers import charonia_command, free_ports, wait_ready
from examples.language import layout as language
from examples.language.client import over_grpc, over_http

LOST_AFTER_S = 60
KILL_EVERY_S, RELOAD_EVERY_S = 3.0, 5.0
# What a client may be told when the process of a model was killed under its request, or its model replaced.
EXPECTED = ("is not healthy", "is being unloaded", "was unloaded", "process of", "must specify the START flag")
GENERATED_TOKENS = 16


class Soak:
    """The server, and what its clients saw."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        build(folder)
        http, grpc, metrics = free_ports(3)
        self.http, self.grpc = f"127.0.0.1:{http}", f"127.0.0.1:{grpc}"
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.over = threading.Event()
        flags = ["--model-control-mode=explicit", "--load-model=*", "--log-info=false", "--log-error=false"]
        flags.append("--backend-config=python,max-deaths=100000")  # else those that die too often would stay dead
        self.server = subprocess.Popen([*charonia_command(folder, [http, grpc, metrics]), *flags])
        wait_ready(self.server, http)
        self.process = psutil.Process(self.server.pid)
        self.text = list(over_grpc(self.grpc, "generate", "Hear", GENERATED_TOKENS))

    def run(self, name: str, work: Callable[["Soak", random.Random], str], seed: int) -> None:
        """One client: `work` again and again; it gives what it did."""
        source = random.Random(seed)
        while not self.over.is_set():
            began = time.monotonic()
            try:
                self.counts[work(self, source)] += 1
            except AssertionError as error:
                self.wrong.append(f"{name}: {error}")
            except (InferenceServerException, RuntimeError, OSError, requests.RequestException) as error:
                self.count_failure(name, str(error))
            if time.monotonic() - began > LOST_AFTER_S:
                self.wrong.append(f"{name}: took {time.monotonic() - began:.0f} s")

    def count_failure(self, name: str, text: str) -> None:
        if any(phrase in text for phrase in EXPECTED):
            self.counts[f"{name}: failed with its process"] += 1
        else:
            self.wrong.append(f"{name}: {text}")

    def kill_processes(self) -> None:
        source = random.Random(1)
        while not self.over.wait(KILL_EVERY_S):
            children = self.process.children()
            if children:
                with suppress(psutil.NoSuchProcess):
                    source.choice(children).send_signal(signal.SIGKILL)
                    self.counts["processes killed"] += 1

    def reload_models(self) -> None:
        source = random.Random(2)
        with httpclient.InferenceServerClient(self.http, network_timeout=LOST_AFTER_S) as client:
            while not self.over.wait(RELOAD_EVERY_S):
                name = source.choice(["echo_a", "echo_b", "identity_a", "tiny_lm", "count", "ensemble_python"])
                touch(Path(self.folder, name, "config.pbtxt"))
                client.load_model(name)
                self.counts["models reloaded"] += 1

    def usage(self) -> dict[str, float]:
        """Memory in MiB, children and descriptors of the server."""
        children = self.process.children(recursive=True)
        memory = 0
        for each in (self.process, *children):
            with suppress(psutil.NoSuchProcess):
                memory += each.memory_info().rss
        return {
            "server MiB": self.process.memory_info().rss / 2**20,
            "all MiB": memory / 2**20,
            "descriptors": self.process.num_fds(),
            "threads": self.process.num_threads(),
            "children": len(children),
            "/dev/shm entries": len(list(Path("/dev/shm").iterdir())),
        }


def touch(path: Path) -> None:
    """Another comment, so that a load is a reload."""
    path.write_text(path.read_text().split("\n# soaked")[0] + f"\n# soaked {time.time_ns()}\n")


def build(folder: Path) -> None:
    language.lay_out(folder)
    composed.build(folder, folder)


def vector(source: random.Random) -> np.ndarray:
    return np.array([[source.random() for _ in range(16)]], np.float32)


def infer(module: object, url: str, model: str, array: np.ndarray, **options: object) -> np.ndarray:
    with module.InferenceServerClient(url) as client:
        tensor = module.InferInput("INPUT0", array.shape, "FP32")
        tensor.set_data_from_numpy(array)
        return client.infer(model, [tensor], **options).as_numpy("OUTPUT0")


def plain(soak: Soak, source: random.Random) -> str:
    model = source.choice(["echo_a", "identity_a", "ensemble_python", "ensemble_identity", "chain"])
    module, url = source.choice([(httpclient, soak.http), (grpcclient, soak.grpc)])
    array = vector(source)
    answer = infer(module, url, model, array)
    assert np.array_equal(answer, array), f"{model} gave {answer} for {array}"
    return model


def cancelled(soak: Soak, source: random.Random) -> str:
    """A deadline that often passes, and connections that close with a request on them."""
    model = source.choice(["echo_a", "ensemble_python", "chain"])
    if source.random() < 0.5:
        with suppress(InferenceServerException):
            infer(grpcclient, soak.grpc, model, vector(source), client_timeout=source.choice([0.0005, 0.002, 0.01]))
        return "deadline"
    host, port = soak.http.split(":")
    with socket.create_connection((host, int(port))) as connection:
        tensor = {"name": "INPUT0", "datatype": "FP32", "shape": [1, 16], "data": [1.5] * 16}
        body = json.dumps({"inputs": [tensor]}).encode()
        head = f"POST /v2/models/{model}/infer HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n".encode()
        connection.sendall(head + body)
        time.sleep(source.choice([0, 0.001]))
    return "closed connection"


def sequence(soak: Soak, source: random.Random) -> str:
    key, length = source.getrandbits(60) + 1, source.randint(1, 12)
    module, url = source.choice([(httpclient, soak.http), (grpcclient, soak.grpc)])
    total = 0
    with module.InferenceServerClient(url) as client:
        for step in range(length):
            value = source.randint(-100, 100)
            total += value
            tensor = module.InferInput("INPUT", [1, 1], "INT32")
            tensor.set_data_from_numpy(np.array([[value]], np.int32))
            last = step == length - 1 and source.random() < 0.9  # the others are left to their idle time-out
            answer = client.infer(
                "sum", [tensor], sequence_id=key, sequence_start=step == 0, sequence_end=last
            ).as_numpy("OUTPUT")
            if answer.item() != total:
                # The process that held the sum may have been killed between two requests.
                soak.counts["sums lost with their process"] += 1
                return "sequence"
    return "sequence"


def counted(soak: Soak, source: random.Random) -> str:
    seen: list[int] = []
    done = threading.Event()
    failure: list[str] = []

    def take(result: grpcclient.InferResult | None, error: Exception | None) -> None:
        if error is not None:
            failure.append(str(error))
            done.set()
        elif result.get_response().parameters["triton_final_response"].bool_param:
            done.set()
        else:
            seen.append(result.as_numpy("OUTPUT").item())

    leaves = source.random() < 0.3
    with grpcclient.InferenceServerClient(soak.grpc) as client:
        client.start_stream(take)
        tensor = grpcclient.InferInput("INPUT", [1], "INT32")
        tensor.set_data_from_numpy(np.array([1], np.int32))
        client.async_stream_infer("count", [tensor], enable_empty_final_response=True)
        if leaves:
            client.stop_stream(cancel_requests=True)
            return "left a stream"
        assert done.wait(LOST_AFTER_S), f"count gave {len(seen)} responses and no end"
    if failure:
        raise RuntimeError(failure[0])
    assert seen == list(range(composed.RESPONSES)), f"count gave {seen}"
    return "count"


def generated(soak: Soak, source: random.Random) -> str:
    model = source.choice(["generate", "language", "iterative"])
    if source.random() < 0.3:
        body = {"text_input": "Hear", "max_tokens": 1000}
        url = f"http://{soak.http}/v2/models/{model}/generate_stream"
        with requests.post(url, json=body, stream=True, timeout=LOST_AFTER_S) as answer:
            next(answer.iter_lines(chunk_size=1), None)
        return "left generate_stream"
    if source.random() < 0.5:
        pieces = list(over_grpc(soak.grpc, model, "Hear", GENERATED_TOKENS))
        assert pieces == soak.text, f"{model} said {pieces}"
    else:
        said = "".join(over_http(soak.http, model, "Hear", GENERATED_TOKENS))
        expected = b"".join(soak.text).decode(errors="replace")
        assert said == expected, f"{model} said {said!r}, expected {expected!r}"
    return model


CLIENTS = (plain, plain, plain, cancelled, sequence, sequence, counted, generated, generated)


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    with tempfile.TemporaryDirectory() as name:
        soak = Soak(Path(name))
        threads = [
            threading.Thread(target=soak.run, args=(work.__name__, work, seed), daemon=True)
            for seed, work in enumerate(CLIENTS)
        ]
        threads += [threading.Thread(target=each, daemon=True) for each in (soak.kill_processes, soak.reload_models)]
        try:
            for thread in threads:
                thread.start()
            time.sleep(seconds / 10)
            before = soak.usage()
            time.sleep(seconds * 9 / 10)
            after = soak.usage()
            soak.over.set()
            for thread in threads:
                thread.join(LOST_AFTER_S)
            hanging = sum(thread.is_alive() for thread in threads)
        finally:
            soak.server.terminate()
            code = soak.server.wait(60)
    for what, count in sorted(soak.counts.items()):
        print(f"{count:8}  {what}")
    print("\nafter a tenth of the time → at the end")
    for what, value in before.items():
        print(f"  {what:18} {value:8.1f} → {after[what]:.1f}")
    print(f"\nwrong or lost: {len(soak.wrong)}, hanging clients: {hanging}, exit code {code}")
    for what, count in Counter(soak.wrong).most_common(20):
        print(f"{count:8}  {what}")
    return 1 if soak.wrong or hanging or code else 0


if __name__ == "__main__":
    sys.exit(main())
