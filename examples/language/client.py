"""Stream text from the language model: `python -m examples.language.client "Hear"`.

Serve it before: `python -m examples.language.serve`.
"""

import argparse
import json
import queue
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import requests
import tritonclient.grpc as grpcclient

FORMS = ("generate", "language", "iterative")
_BATCHED = ("iterative",)


def over_grpc(url: str, model: str, text: str, max_tokens: int, **connection: Any) -> Iterator[bytes]:
    """The pieces of text as they come over ModelStreamInfer: bytes, since a piece may end inside a character.

    `connection` goes to tritonclient's client, such as `ssl=True`.
    """
    shape = [1, 1] if model in _BATCHED else [1]
    answers: queue.SimpleQueue[tuple[grpcclient.InferResult | None, Exception | None]] = queue.SimpleQueue()
    with grpcclient.InferenceServerClient(url, **connection) as client:
        client.start_stream(lambda result, error: answers.put((result, error)))
        prompt = grpcclient.InferInput("text_input", shape, "BYTES")
        prompt.set_data_from_numpy(np.array([text.encode()], np.object_).reshape(shape))
        most = grpcclient.InferInput("max_tokens", shape, "INT32")
        most.set_data_from_numpy(np.array([max_tokens], np.int32).reshape(shape))
        client.async_stream_infer(model, [prompt, most], enable_empty_final_response=True)
        while True:
            result, error = answers.get()
            if error is not None:
                raise error
            assert result is not None
            piece = result.as_numpy("text_output")  # the last answer may come with a piece or without
            if piece is not None:
                yield piece.item()
            if result.get_response().parameters["triton_final_response"].bool_param:
                return


def over_http(url: str, model: str, text: str, max_tokens: int, **connection: Any) -> Iterator[str]:
    """The pieces of text as they come from generate_stream: whole characters.

    `connection` goes to requests; `url` may begin with `https://`.
    """
    body = {"text_input": text, "max_tokens": max_tokens}
    path = f"{url if '://' in url else f'http://{url}'}/v2/models/{model}/generate_stream"
    with requests.post(path, json=body, stream=True, timeout=60, **connection) as answer:
        for line in answer.iter_lines(chunk_size=1):
            if line.startswith(b"data:"):
                event = json.loads(line[len(b"data:") :])
                if "error" in event:
                    raise RuntimeError(event["error"])
                yield event["text_output"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m examples.language.client", description=__doc__)
    parser.add_argument("text", nargs="?", default="Hear")
    parser.add_argument("--model", choices=FORMS, default="language")
    parser.add_argument("--max-tokens", type=int, default=24)
    parser.add_argument("--grpc", metavar="URL", help="stream over gRPC instead, such as localhost:8001")
    parser.add_argument("--url", default="localhost:8000")
    options = parser.parse_args()
    sys.stdout.write(options.text)
    if options.grpc:
        for piece in over_grpc(options.grpc, options.model, options.text, options.max_tokens):
            sys.stdout.buffer.write(piece)
            sys.stdout.flush()
    else:
        for text in over_http(options.url, options.model, options.text, options.max_tokens):
            sys.stdout.write(text)
            sys.stdout.flush()
    print()


if __name__ == "__main__":
    main()
