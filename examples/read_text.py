"""Have the text in an image read: `python -m examples.read_text IMAGE [--model ocr_bls]`, while `make demo` serves."""

import argparse
from pathlib import Path

import numpy as np
import tritonclient.http as httpclient

Line = tuple[str, list[int]]
"""What a line says, and its place: left, top, right, bottom in pixels."""


def read_text(client: httpclient.InferenceServerClient, model: str, file: bytes) -> list[Line]:
    """Send an image file (PNG, JPEG, ...) once; the lines of text in it, in reading order."""
    image = httpclient.InferInput("RAW_IMAGE", [len(file)], "UINT8")
    image.set_data_from_numpy(np.frombuffer(file, np.uint8))
    answer = client.infer(model, [image])
    return [
        (text.decode(), place.tolist())
        for text, place in zip(answer.as_numpy("TEXT"), answer.as_numpy("PLACES"), strict=True)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.read_text", description=__doc__)
    parser.add_argument("image", type=Path)
    parser.add_argument("--model", default="ocr_pipeline", help="ocr_pipeline (the ensemble) or ocr_bls")
    parser.add_argument("--url", default="localhost:8000")
    options = parser.parse_args()
    with httpclient.InferenceServerClient(options.url, network_timeout=120) as client:
        for text, place in read_text(client, options.model, options.image.read_bytes()):
            print(f"{place}  {text}")


if __name__ == "__main__":
    main()
