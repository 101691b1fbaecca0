"""The clients that make the load: perf_analyzer (PERF_ANALYZER names it), wrk, and a checker that asks once."""

import csv
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import tritonclient.http as httpclient

from benchmarks.servers import Running

WINDOW_MS = int(os.environ.get("BENCH_WINDOW_MS", "2000"))


@dataclass(frozen=True)
class Load:
    """What a client saw: answers per second, mean latency, and the server's CPU time for each answer."""

    per_s: float
    latency_us: float
    cpu_us: float


def perf_analyzer_program() -> str:
    """Its path; ends the run where there is none."""
    program = os.environ.get("PERF_ANALYZER") or shutil.which("perf_analyzer")
    if program is None:
        raise SystemExit("no perf_analyzer on the PATH: set PERF_ANALYZER to the program (benchmarks/README.md)")
    return program


def perf_analyzer(server: Running, model: str, protocol: str, concurrency: int, *extra: str) -> Load:
    """Three windows of perf_analyzer; what it reports."""
    program = perf_analyzer_program()
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.csv"
        command = [program, "-m", model, "-u", server.address(protocol), "-i", protocol, "-s", "999", "-p"]
        command += [str(WINDOW_MS), "--concurrency-range", str(concurrency), "--verbose-csv", "-f", str(report), *extra]
        before_s, before = server.cpu_s(), inference_count(server, model)
        run_to_the_end(command)
        cpu_s, answers = server.cpu_s() - before_s, inference_count(server, model) - before
        (row,) = csv.DictReader(report.open())
    latency = float(row["Avg latency"]) if "Avg latency" in row else float(row["p50 latency"])
    return Load(float(row["Inferences/Second"]), latency, cpu_s * 1e6 / max(1, answers))


def run_to_the_end(command: list[str]) -> None:
    """perf_analyzer, once more when it hangs: it does so now and then with sequences on a stream."""
    for _ in range(2):
        try:
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=60 + WINDOW_MS / 10)
            return
        except subprocess.TimeoutExpired as expired:
            hung = expired
    raise hung


def wrk(server: Running, model: str, body: str, connections: int) -> Load:
    """One thread of wrk with a JSON body."""
    before_s, before = server.cpu_s(), inference_count(server, model)
    rate = _run_wrk(server, model, body, connections, max(1.0, WINDOW_MS * 3 / 1000))
    cpu_s, answers = server.cpu_s() - before_s, inference_count(server, model) - before
    return Load(rate, 1e6 * connections / rate, cpu_s * 1e6 / max(1, answers))


def wrk_requests(server: Running, model: str, body: str, about: int) -> None:
    """About that many requests, rather more than fewer."""
    _run_wrk(server, model, body, 32, max(1.0, about / 15_000))


def _run_wrk(server: Running, model: str, body: str, connections: int, seconds: float) -> float:
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "post.lua"
        script.write_text(f"wrk.method='POST'\nwrk.body=[[{body}]]\nwrk.headers['Content-Type']='application/json'\n")
        url = f"http://localhost:{server.http}/v2/models/{model}/infer"
        command = ["wrk", "-t1", f"-c{connections}", f"-d{round(seconds)}s", "-s", str(script), url]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    if "Non-2xx" in text:
        raise RuntimeError(text)
    return float(re.search(r"Requests/sec:\s+([\d.]+)", text)[1])


def inference_count(server: Running, model: str) -> int:
    with httpclient.InferenceServerClient(server.address("http")) as client:
        return client.get_inference_statistics(model)["model_stats"][0].get("inference_count", 0)


def check_add_sub(server: Running, model: str) -> None:
    """The answers must be right before anything is timed."""
    first, second = np.arange(32, dtype=np.float32).reshape(2, 16), np.full((2, 16), 3, np.float32)
    inputs = []
    for name, array in (("INPUT0", first), ("INPUT1", second)):
        tensor = httpclient.InferInput(name, array.shape, "FP32")
        tensor.set_data_from_numpy(array)
        inputs.append(tensor)
    with httpclient.InferenceServerClient(server.address("http")) as client:
        answer = client.infer(model, inputs)
    np.testing.assert_array_equal(answer.as_numpy("OUTPUT0"), first + second)
    np.testing.assert_array_equal(answer.as_numpy("OUTPUT1"), first - second)
