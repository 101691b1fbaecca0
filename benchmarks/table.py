"""The table of a comparison: rows that alternate between two servers, and how one is printed."""

import os
import platform
import statistics
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from benchmarks.clients import WINDOW_MS, Load, perf_analyzer, perf_analyzer_program
from benchmarks.servers import Running

ROUNDS = int(os.environ.get("BENCH_ROUNDS", "3"))
Measure = Callable[[Running], Load]


@dataclass(frozen=True)
class Row:
    """One comparison; `figure` is read from both loads; `at_most` says that less is better."""

    name: str
    ours: Measure
    theirs: Measure
    figure: Callable[[Load], float]
    target: float
    at_most: bool = False


def per_s(load: Load) -> float:
    return load.per_s


def latency_us(load: Load) -> float:
    return load.latency_us


def cpu_us(load: Load) -> float:
    return load.cpu_us


def analysed(model: str, protocol: str, concurrency: int, *extra: str) -> Measure:
    return lambda server: perf_analyzer(server, model, protocol, concurrency, *extra)


def compare(row: Row, ours: Running, theirs: Running) -> str:
    mine, other = [], []
    for _ in range(ROUNDS):
        other.append(row.figure(row.theirs(theirs)))
        mine.append(row.figure(row.ours(ours)))
    a, b = statistics.median(mine), statistics.median(other)
    met = a / b <= row.target if row.at_most else a / b >= row.target
    sign = "≤" if row.at_most else "≥"
    return f"| {row.name} | {a:,.0f} | {b:,.0f} | {a / b:.2f} × | {sign} {row.target} | {'met' if met else 'MISSED'} |"


def print_head() -> None:
    """What was measured where, and the head of the table."""
    machine = platform.processor() or platform.machine()
    print(f"{machine}, {os.cpu_count()} cores, {platform.platform()}, Python {platform.python_version()}")
    print(f"medians of {ROUNDS} alternating rounds, three windows of {WINDOW_MS} ms each\n")
    print("| work | Charonia | the other | ratio | target | |\n| --- | --- | --- | --- | --- | --- |", flush=True)


def begin_comparison() -> None:
    """Where every row compares: what is needed is there, and the head of the table. Ends the run where something is
    missing."""
    perf_analyzer_program()
    if "TRITONSERVER" not in os.environ:
        raise SystemExit("TRITONSERVER is not set: every row here compares with a real server (benchmarks/README.md)")
    print_head()


def print_rows(rows: Iterable[Row], ours: Running, theirs: Running) -> None:
    """Those in whose names the command's first argument is; without one all."""
    wanted = sys.argv[1].lower() if len(sys.argv) > 1 else ""
    for row in rows:
        if wanted in row.name.lower():
            print(compare(row, ours, theirs), flush=True)
