"""`make demo`: serve the example models, ask each of them something, show the answers, go on serving."""

import argparse
import io
import subprocess
import sys
import time
from pathlib import Path

import tritonclient.http as httpclient
from PIL import Image, ImageDraw, ImageFont

from examples.file_type import file_type_input
from examples.layout import lay_out
from examples.read_text import read_text

ROOT = Path(__file__).parent.parent
REPOSITORY = ROOT / "demo-repository"
START_TIMEOUT_S = 60


def main() -> int:
    options = parse()
    say("1/3", "Laying out a model repository with the models of the packages magika and rapidocr")
    lay_out(REPOSITORY)
    say("2/3", "Starting the server")
    server = start_server(options)
    try:
        say("3/3", "Asking each model something")
        with httpclient.InferenceServerClient(f"127.0.0.1:{options.http_port}", network_timeout=120) as client:
            wait_until_ready(client, server)
            right = [show_file_types(client), show_text(client, options.text)]
        if options.once or not all(right):
            return 0 if all(right) else 1
        invite(options)
        return server.wait()
    except KeyboardInterrupt:
        return 0
    finally:
        server.terminate()
        server.wait()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m examples.demo", description=__doc__)
    parser.add_argument("--text", default="Hello from Charonia", help="the words to draw and to read")
    parser.add_argument("--once", action="store_true", help="end after the answers; exit code 1 if one is wrong")
    parser.add_argument("--http-port", type=int, default=8000)
    parser.add_argument("--grpc-port", type=int, default=8001)
    parser.add_argument("--metrics-port", type=int, default=8002)
    return parser.parse_args()


def say(step: str, what: str) -> None:
    print(f"\n[{step}] {what}", flush=True)


def start_server(options: argparse.Namespace) -> "subprocess.Popen[bytes]":
    ports = [f"--{name}-port={getattr(options, f'{name}_port')}" for name in ("http", "grpc", "metrics")]
    command = [sys.executable, "-m", "charonia", "serve", f"--model-repository={REPOSITORY}", *ports]
    print("     charonia serve --model-repository=demo-repository " + " ".join(ports), flush=True)
    return subprocess.Popen(command)


def wait_until_ready(client: httpclient.InferenceServerClient, server: "subprocess.Popen[bytes]") -> None:
    deadline = time.monotonic() + START_TIMEOUT_S
    while time.monotonic() < deadline:
        if server.poll() is not None:
            raise SystemExit(
                f"the server ended with exit code {server.returncode}; its log above says why "
                "(a port that is taken: make demo HTTP_PORT=… GRPC_PORT=… METRICS_PORT=…)"
            )
        try:
            if client.is_server_ready():
                return
        except OSError:
            pass
        time.sleep(0.1)
    raise SystemExit(f"the server was not ready within {START_TIMEOUT_S} s")


def show_file_types(client: httpclient.InferenceServerClient) -> bool:
    """Magika on files of this repository, answered as classes: probability, index and label."""
    right = True
    print("\n     file_type (ONNX, the classification extension gives the label):")
    wanted = {"README.md": "markdown", "Makefile": "makefile", "examples/demo.py": "python", "pyproject.toml": "toml"}
    for path, expected in wanted.items():
        tensor = httpclient.InferInput("bytes", [1, 2048], "INT32")
        tensor.set_data_from_numpy(file_type_input((ROOT / path).read_bytes()))
        output = httpclient.InferRequestedOutput("target_label", class_count=1)
        answer = client.infer("file_type", [tensor], outputs=[output]).as_numpy("target_label")
        probability, _, label = answer[0][0].decode().split(":")
        right &= label == expected
        print(f"       {path:18} is {label} ({float(probability):.0%})")
    return right


def show_text(client: httpclient.InferenceServerClient, text: str) -> bool:
    """Draw `text`, and have it read by the pipeline: one request, the image crosses the network once."""
    file = draw(text)
    print(f"\n     ocr_pipeline (an ensemble of Python and ONNX models): a PNG of {len(file)} bytes")
    right = report(read_text(client, "ocr_pipeline", file), text)
    print("     ocr_bls (a Python model that calls the others): the same upside down")
    return report(read_text(client, "ocr_bls", draw(text, upside_down=True)), text) and right


def report(lines: list[tuple[str, list[int]]], text: str) -> bool:
    for read, place in lines:
        print(f'       reads "{read}" in the box {place}')
    same = "".join("".join(read.split()) for read, _ in lines) == "".join(text.split())
    if not same:
        print(f'       which is not what was drawn: "{text}"')
    return same


def draw(text: str, *, upside_down: bool = False) -> bytes:
    """A PNG with `text` in black on white, one line."""
    font = ImageFont.load_default(size=40)
    left, top, right, bottom = font.getbbox(text)
    image = Image.new("RGB", (int(right - left) + 80, int(bottom - top) + 80), "white")
    ImageDraw.Draw(image).text((40 - left, 40 - top), text, fill="black", font=font)
    if upside_down:
        image = image.rotate(180)
    data = io.BytesIO()
    image.save(data, "PNG")
    return data.getvalue()


def invite(options: argparse.Namespace) -> None:
    http = f"http://localhost:{options.http_port}"
    print(
        f"""
     Serving on:
       HTTP     {http}/v2
       gRPC     localhost:{options.grpc_port}
       metrics  http://localhost:{options.metrics_port}/metrics
       live     http://localhost:{options.metrics_port}/live (for a browser: the models and their load)
     Try:
       curl -s {http}/v2/models/file_type
       curl -s {http}/v2/models/file_type/stats
       .venv/bin/python -m examples.read_text --url localhost:{options.http_port} IMAGE
     End with Ctrl-C.""",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
