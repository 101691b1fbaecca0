"""What the clients of `soak.py` do: each function sends something once, checks the answer, and says what it was."""

import random
import socket
import threading
import time
import uuid
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import requests
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
import tritonclient.utils.shared_memory as shm
from tritonclient.utils import InferenceServerException

from benchmarks import composed
from benchmarks.repositories import ECHO, write_python
from examples.language import layout as language
from examples.language.client import over_grpc, over_http

if TYPE_CHECKING:
    from benchmarks.soak import Soak

LOST_AFTER_S = 60
GENERATED_TOKENS = 16
RELOADED = ("echo_a", "echo_b", "identity_a", "tiny_lm", "count", "ensemble_python", "cached", "limited", "targeted")
_CACHED_KEYS = 400  # more than fit, so that entries go as well
_SHARED_ROWS = 4096
_PLAIN = ("echo_a", "identity_a", "ensemble_python", "ensemble_identity", "chain", "limited", "targeted")

_CACHED = "response_cache { enable: true }"
_LIMITED = """instance_group { count: 2 kind: KIND_CPU rate_limiter { resources { name: "R" global: true count: 2 } } }
dynamic_batching {}"""
_TARGETED = """dynamic_batching {}
parameters { key: "latency_target_p95_ms" value { string_value: "20" } }"""


def build(folder: Path) -> None:
    language.lay_out(folder)
    composed.build(folder, folder)
    io = composed.VECTOR
    write_python(folder, "cached", "max_batch_size: 8\n" + io + _CACHED, ECHO)
    write_python(folder, "limited", "max_batch_size: 8\n" + io + _LIMITED, ECHO)
    write_python(folder, "targeted", "max_batch_size: 8\n" + io + _TARGETED, ECHO)


def vector(source: random.Random) -> np.ndarray:
    return np.array([[source.random() for _ in range(16)]], np.float32)


def door(soak: "Soak", source: random.Random) -> tuple[object, "httpclient.InferenceServerClient"]:
    """A module of tritonclient, and a client of it."""
    return source.choice([(httpclient, soak.http), (grpcclient, soak.grpc)])


def infer(soak: "Soak", source: random.Random, model: str, array: np.ndarray) -> np.ndarray:
    module, connect = door(soak, source)
    with connect() as client:
        tensor = module.InferInput("INPUT0", array.shape, "FP32")
        tensor.set_data_from_numpy(array)
        return client.infer(model, [tensor]).as_numpy("OUTPUT0")


def plain(soak: "Soak", source: random.Random) -> str:
    model = source.choice(_PLAIN)
    array = vector(source)
    answer = infer(soak, source, model, array)
    assert np.array_equal(answer, array), f"{model} gave {answer} for {array}"
    return model


def cached(soak: "Soak", source: random.Random) -> str:
    array = np.full((1, 16), source.randrange(_CACHED_KEYS), np.float32)
    answer = infer(soak, source, "cached", array)
    assert np.array_equal(answer, array), f"cached gave {answer} for {array}"
    return "cached"


def cancelled(soak: "Soak", source: random.Random) -> str:
    """A deadline that often passes, and connections that close with a request on them."""
    model = source.choice(["echo_a", "ensemble_python", "chain", "cached", "limited", "targeted"])
    array = vector(source)
    tensor = grpcclient.InferInput("INPUT0", array.shape, "FP32")
    tensor.set_data_from_numpy(array)
    if source.random() < 0.5:
        with soak.grpc() as client, suppress(InferenceServerException):
            client.infer(model, [tensor], client_timeout=source.choice([0.0005, 0.002, 0.01]))
        return "deadline"
    body = {"inputs": [{"name": "INPUT0", "datatype": "FP32", "shape": [1, 16], "data": [1.5] * 16}]}
    with suppress(requests.Timeout):
        # The TLS connection is there long before this; what ends is the wait for the answer.
        requests.post(
            f"https://{soak.http_url}/v2/models/{model}/infer",
            json=body,
            verify=soak.root,
            timeout=(LOST_AFTER_S, source.choice([0.001, 0.003])),
        )
    return "closed connection"


def half_a_handshake(soak: "Soak", source: random.Random) -> str:
    with socket.create_connection(("localhost", soak.http_port)) as connection:
        connection.sendall(b"\x16\x03\x01" + source.randbytes(source.choice([0, 20])))
        time.sleep(0.05)
    return "half a handshake"


def shared(soak: "Soak", source: random.Random) -> str:
    """Input and output in one region, which may go while the request is under way."""
    name = f"soak_{uuid.uuid4().hex}"
    array = np.full((1, 16), source.random(), np.float32)
    region = shm.create_shared_memory_region(name, f"/{name}", 2 * array.nbytes)
    module, connect = door(soak, source)
    try:
        shm.set_shared_memory_region(region, [array])
        with connect() as client:
            client.register_system_shared_memory(name, f"/{name}", 2 * array.nbytes)
            tensor = module.InferInput("INPUT0", array.shape, "FP32")
            tensor.set_shared_memory(name, array.nbytes)
            wanted = module.InferRequestedOutput("OUTPUT0")
            wanted.set_shared_memory(name, array.nbytes, offset=array.nbytes)
            client.infer(source.choice(_PLAIN), [tensor], outputs=[wanted])
            answer = shm.get_contents_as_numpy(region, np.float32, [1, 16], offset=array.nbytes)
            assert np.array_equal(answer, array), f"the region has {answer}, for {array}"
            client.unregister_system_shared_memory(name)
    finally:
        shm.destroy_shared_memory_region(region)
    return "shared memory"


def sequence(soak: "Soak", source: random.Random) -> str:
    key, length = source.getrandbits(60) + 1, source.randint(1, 12)
    module, connect = door(soak, source)
    total = 0
    with connect() as client:
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


def counted(soak: "Soak", source: random.Random) -> str:
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
    with soak.grpc() as client:
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


def generated(soak: "Soak", source: random.Random) -> str:
    model = source.choice(["generate", "language", "iterative"])
    if source.random() < 0.3:
        body = {"text_input": "Hear", "max_tokens": 1000}
        url = f"https://{soak.http_url}/v2/models/{model}/generate_stream"
        with requests.post(url, json=body, stream=True, timeout=LOST_AFTER_S, verify=soak.root) as answer:
            next(answer.iter_lines(chunk_size=1), None)
        return "left generate_stream"
    if source.random() < 0.5:
        pieces = list(over_grpc(soak.grpc_url, model, "Hear", GENERATED_TOKENS, **soak.grpc_tls))
        assert pieces == soak.text, f"{model} said {pieces}"
    else:
        said = "".join(over_http(f"https://{soak.http_url}", model, "Hear", GENERATED_TOKENS, verify=soak.root))
        expected = b"".join(soak.text).decode(errors="replace")
        assert said == expected, f"{model} said {said!r}, expected {expected!r}"
    return model


CLIENTS = (
    *(plain, plain, plain, cached, cached, cancelled, half_a_handshake),
    *(shared, shared, sequence, sequence, counted, generated, generated),
)
