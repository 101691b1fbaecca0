"""`make demo`: serve the example models, ask each of them something, show the answers, go on serving."""

import argparse
import io
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import tritonclient.http as httpclient
from PIL import Image, ImageDraw, ImageFont

from examples.file_type import file_type_input
from examples.layout import lay_out, recognition_characters
from examples.ocr import detection_input, read_characters, recognition_input, text_boxes

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


def infer(
    client: httpclient.InferenceServerClient, model: str, name: str, array: np.ndarray, datatype: str, output: str
) -> np.ndarray:
    """One input, one output, both as binary tensors."""
    tensor = httpclient.InferInput(name, array.shape, datatype)
    tensor.set_data_from_numpy(array)
    return client.infer(model, [tensor], outputs=[httpclient.InferRequestedOutput(output)]).as_numpy(output)


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
    """Draw `text`, and have it decoded, found and read by three models."""
    file = draw(text)
    encoded = np.frombuffer(file, np.uint8)
    print(f"\n     image_decoder (Python): a PNG of {len(file)} bytes")
    pixels = infer(client, "image_decoder", "FILE", encoded, "UINT8", "PIXELS")
    height, width = pixels.shape[:2]
    print(f"       is an image of {width} x {height} pixels")
    print("     text_detection (ONNX, dynamic shapes)")
    found = infer(client, "text_detection", "x", detection_input(pixels), "FP32", "fetch_name_0")
    boxes = text_boxes(found[0, 0], height, width)
    print(f"       finds text in {len(boxes)} place(s)")
    print("     text_recognition (ONNX, dynamic shapes, dynamic batching)")
    characters = recognition_characters()
    read = []
    for box in boxes:
        line = infer(client, "text_recognition", "x", recognition_input(pixels, box), "FP32", "fetch_name_0")
        read.append(read_characters(line[0], characters))
    print(f'       reads "{" ".join(read)}"')
    same = "".join("".join(read).split()) == "".join(text.split())
    if not same:
        print(f'       which is not what was drawn: "{text}"')
    return same


def draw(text: str) -> bytes:
    """A PNG with `text` in black on white, one line."""
    font = ImageFont.load_default(size=40)
    left, top, right, bottom = font.getbbox(text)
    image = Image.new("RGB", (int(right - left) + 80, int(bottom - top) + 80), "white")
    ImageDraw.Draw(image).text((40 - left, 40 - top), text, fill="black", font=font)
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
     Try:
       curl -s {http}/v2/models/file_type
       curl -s {http}/v2/models/file_type/stats
     End with Ctrl-C.""",
        flush=True,
    )


if __name__ == "__main__":
    sys.exit(main())
