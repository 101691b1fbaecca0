"""Everything at once for minutes: `python -m benchmarks.soak [seconds]`. Is a request lost, does anything grow?

Clients of every kind (`soak_clients.py`) check each answer, over TLS; some cancel, or leave in the middle of a stream.
Processes of models are killed and models reloaded meanwhile, regions of shared memory come and go, one request in a
thousand is traced. A request may fail where its process was killed under it; it may not hang, and not be wrong. At the
end its memory, descriptors and shared memory are compared with what they were after the first tenth of the time.
"""

import json
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import requests
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from benchmarks import soak_clients
from benchmarks.servers import READY_TIMEOUT_S, charonia_command, free_ports
from examples.language.client import over_grpc
from tests.certificates import Authority

LOST_AFTER_S = soak_clients.LOST_AFTER_S
KILL_EVERY_S, RELOAD_EVERY_S = 3.0, 5.0
TRACE_RATE = 1000
# What a client may be told when the process of a model was killed under its request, or its model replaced.
EXPECTED = ("is not healthy", "is being unloaded", "was unloaded", "process of", "must specify the START flag")


class Soak:
    """The server, and what its clients saw."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.models = folder / "models"
        self.models.mkdir()
        soak_clients.build(self.models)
        self._authority = Authority(folder)
        self.http_port, self.grpc_port, metrics = free_ports(3)
        self.counts: Counter[str] = Counter()
        self.wrong: list[str] = []
        self.over = threading.Event()
        self.server = subprocess.Popen(
            [*charonia_command(self.models, [self.http_port, self.grpc_port, metrics]), *self._flags()]
        )
        self._wait_ready()
        self.process = psutil.Process(self.server.pid)
        prompt = ("generate", "Hear", soak_clients.GENERATED_TOKENS)
        self.text = list(over_grpc(self.grpc_url, *prompt, **self.grpc_tls))

    def _flags(self) -> list[str]:
        identity = self._authority.server()
        tls = [
            flag
            for door in ("http", "grpc")
            for flag in (
                f"--{door}-use-ssl=true",
                f"--{door}-server-cert={identity.certificate}",
                f"--{door}-server-key={identity.key}",
            )
        ]
        return [
            *("--model-control-mode=explicit", "--load-model=*", "--log-info=false", "--log-error=false"),
            "--backend-config=python,max-deaths=100000",  # else those that die too often would stay dead
            *tls,
            *("--cache-config=local,size=200000", "--allow-client-shm=true", "--rate-limit=execution_count"),
            *(f"--trace-config=triton,file={self.traces}", "--trace-config=level=TIMESTAMPS"),
            *(f"--trace-config=rate={TRACE_RATE}", f"--access-log={self.folder / 'access.log'}"),
        ]

    @property
    def traces(self) -> Path:
        return self.folder / "traces.json"

    @property
    def root(self) -> str:
        """The certificate that clients trust."""
        return str(self._authority.root)

    @property
    def http_url(self) -> str:
        return f"localhost:{self.http_port}"

    @property
    def grpc_url(self) -> str:
        return f"localhost:{self.grpc_port}"

    @property
    def grpc_tls(self) -> dict[str, Any]:
        return {"ssl": True, "root_certificates": self.root}

    def http(self) -> httpclient.InferenceServerClient:
        options = {"ca_certs": self.root}
        return httpclient.InferenceServerClient(
            self.http_url, ssl=True, ssl_options=options, network_timeout=LOST_AFTER_S
        )

    def grpc(self) -> grpcclient.InferenceServerClient:
        return grpcclient.InferenceServerClient(self.grpc_url, **self.grpc_tls)

    def _wait_ready(self) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < deadline:
            with suppress(OSError):
                if requests.get(f"https://{self.http_url}/v2/health/ready", verify=self.root, timeout=5).ok:
                    return
            time.sleep(0.05)
        raise TimeoutError(f"not ready after {READY_TIMEOUT_S} s")

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
        with self.http() as client:
            while not self.over.wait(RELOAD_EVERY_S):
                name = source.choice(soak_clients.RELOADED)
                touch(self.models / name / "config.pbtxt")
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


def main() -> int:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 600.0
    with tempfile.TemporaryDirectory() as name:
        soak = Soak(Path(name))
        threads = [
            threading.Thread(target=soak.run, args=(work.__name__, work, seed), daemon=True)
            for seed, work in enumerate(soak_clients.CLIENTS)
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
        traced = len(
            {record["id"] for path in soak.folder.glob("traces.json*") for record in json.loads(path.read_text())}
        )
        logged = sum(1 for _ in (soak.folder / "access.log").open())
    soak.counts["requests traced"], soak.counts["lines of the access log"] = traced, logged
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
