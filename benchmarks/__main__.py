"""Compare Charonia with a real Triton and with a bare loop, on this machine, in one run: `make bench`.

Each row alternates between the two sides and takes medians; the last column is what matters. Environment:
TRITONSERVER (binary or script), TRITON_BACKENDS, PERF_ANALYZER, BENCH_WINDOW_MS, BENCH_ROUNDS; an argument chooses
rows whose name contains it.
"""

import os
import statistics
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from benchmarks import bare, repositories
from benchmarks.clients import WINDOW_MS, check_add_sub, perf_analyzer, perf_analyzer_program, wrk
from benchmarks.echo import echo, strings
from benchmarks.servers import Running, running
from benchmarks.table import ROUNDS, Measure, Row, analysed, cpu_us, latency_us, per_s, print_head, print_rows

JSON_BODY = (
    '{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1,16],"data":[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16]},'
    '{"name":"INPUT1","datatype":"FP32","shape":[1,16],"data":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}]}'
)


def rows() -> list[Row]:
    theirs_http, theirs_grpc = analysed("addsub_python", "http", 32), analysed("addsub_python", "grpc", 32)
    text = strings()

    def echo_of(model: str, protocol: str, array: np.ndarray, datatype: str) -> Measure:
        return lambda server: echo(server, model, protocol, array, datatype, 4)

    table = [
        Row("ONNX add/sub c=32 HTTP binary", analysed("addsub_onnx", "http", 32), theirs_http, per_s, 1.7),
        Row("ONNX add/sub c=32 gRPC", analysed("addsub_onnx", "grpc", 32), theirs_grpc, per_s, 1.55),
        Row(
            "ONNX add/sub c=32 HTTP JSON (wrk)",
            lambda server: wrk(server, "addsub_onnx", JSON_BODY, 32),
            lambda server: wrk(server, "addsub_python", JSON_BODY, 32),
            per_s,
            2.5,
        ),
        Row("CPU per request HTTP", analysed("addsub_onnx", "http", 32), theirs_http, cpu_us, 0.45, True),
        Row("CPU per request gRPC", analysed("addsub_onnx", "grpc", 32), theirs_grpc, cpu_us, 0.45, True),
        Row("Python isolated c=32 HTTP", analysed("addsub_python", "http", 32), theirs_http, per_s, 1.4),
        Row("Python isolated c=32 gRPC", analysed("addsub_python", "grpc", 32), theirs_grpc, per_s, 1.4),
        Row("Python inline c=32 HTTP", analysed("addsub_inline", "http", 32), theirs_http, per_s, 1.7),
        Row("Python inline c=32 gRPC", analysed("addsub_inline", "grpc", 32), theirs_grpc, per_s, 1.5),
    ]
    for protocol, target in (("http", 0.62), ("grpc", 0.70)):
        alone, theirs = analysed("addsub_onnx", protocol, 1), analysed("addsub_python", protocol, 1)
        table.append(Row(f"ONNX add/sub latency c=1 {protocol}", alone, theirs, latency_us, target, True))
    table.append(Row("MLP as ONNX c=32 HTTP", analysed("mlp_onnx", "http", 32), theirs_http, per_s, 1.1))
    for protocol in ("http", "grpc"):
        large = analysed("echo_4mb", protocol, 4, "--shape", "INPUT0:1000000")
        table.append(Row(f"FP32 1M elements echoed by Python c=4 {protocol}", large, large, per_s, 1.2))
        many = echo_of("echo_text", protocol, text, "BYTES")
        table.append(Row(f"1,000 strings echoed by Python c=4 {protocol}", many, many, per_s, 1.3))
    return table


def compare_bare(ours: Running, model: Path) -> str:
    mine, other = [], []
    for _ in range(ROUNDS):
        other.append(bare.sessions_per_s(model, 2, WINDOW_MS * 3 / 1000))
        mine.append(perf_analyzer(ours, "conv_onnx", "http", 4).per_s)
    a, b = statistics.median(mine), statistics.median(other)
    met = "met" if a / b >= 0.95 else "MISSED"
    return (
        f"| Convolution net, 2 instances, against a bare loop | {a:,.1f} | {b:,.1f} | {a / b:.2f} × | ≥ 0.95 | {met} |"
    )


def main() -> None:
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    perf_analyzer_program()
    print_head()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        root = repositories.build(Path(folder))
        both = root / "both"
        both.mkdir()
        for model in [*(root / "python").iterdir(), *(root / "charonia").iterdir()]:
            (both / model.name).symlink_to(model)
        ours = stack.enter_context(running("charonia", both))
        for model in ("addsub_onnx", "addsub_python", "addsub_inline"):
            check_add_sub(ours, model)
        if wanted in "convolution":
            print(compare_bare(ours, both / "conv_onnx" / "1" / "model.onnx"), flush=True)
        if "TRITONSERVER" not in os.environ:
            print("\nTRITONSERVER is not set: no comparison with a real server")
            return
        theirs = stack.enter_context(running("triton", root / "python"))
        check_add_sub(theirs, "addsub_python")
        print_rows(rows(), ours, theirs)


if __name__ == "__main__":
    main()
