"""What the server costs while nothing happens, and what remains of much work: `python -m benchmarks.upkeep`.

Start-up to ready with one small ONNX model; CPU over 60 s without requests, with one model of each kind; memory after
one million requests against ten thousand, children counted.
"""

import os
import statistics
import tempfile
import time
from pathlib import Path

from benchmarks import repositories
from benchmarks.__main__ import JSON_BODY
from benchmarks.clients import inference_count, wrk_requests
from benchmarks.servers import Running, running

IDLE_S = int(os.environ.get("BENCH_IDLE_S", "60"))
FEW, MANY = 10_000, int(os.environ.get("BENCH_MANY", "1000000"))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = repositories.build(Path(folder))
        one = chosen(root, "one", ["addsub_onnx"])
        print(f"start-up to ready, one small ONNX model: {statistics.median(start_up_s(one) for _ in range(5)):.2f} s")
        each = chosen(root, "each", ["addsub_onnx", "addsub_python", "addsub_inline"])
        with running("charonia", each) as server:
            print(f"idle over {IDLE_S} s, one model of each kind: {idle_percent(server):.3f} % of a core")
            for model in ("addsub_onnx", "addsub_python", "addsub_inline"):
                few, many = memory_mib(server, model)
                print(f"{model}: {few:.1f} MiB after {FEW:,} requests, {many:.1f} after {MANY:,}: {many - few:+.1f}")


def chosen(root: Path, name: str, models: list[str]) -> Path:
    """A repository of some of the models."""
    target = root / name
    target.mkdir()
    for model in models:
        source = root / "python" / model
        (target / model).symlink_to(source if source.exists() else root / "charonia" / model)
    return target


def start_up_s(repository: Path) -> float:
    start = time.monotonic()
    with running("charonia", repository):
        return time.monotonic() - start


def idle_percent(server: Running) -> float:
    time.sleep(2)  # what the start left to do is over
    before_s = server.cpu_s()
    time.sleep(IDLE_S)
    return (server.cpu_s() - before_s) / IDLE_S * 100


def memory_mib(server: Running, model: str) -> tuple[float, float]:
    """Resident memory of server and children after a few and after many requests."""
    figures = []
    for total in (FEW, MANY):
        while (left := total - inference_count(server, model)) > 0:
            wrk_requests(server, model, JSON_BODY, left)
        figures.append(server.rss_bytes() / 2**20)
    return figures[0], figures[1]


if __name__ == "__main__":
    main()
