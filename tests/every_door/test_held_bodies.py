"""The bytes of a request are given back once it is answered, whoever has had it: they count against a limit."""

import json
import time
from concurrent.futures import ThreadPoolExecutor
from textwrap import dedent

import numpy as np
import pytest
import requests

from charonia.api import Server
from tests.every_door.doors import open_door
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_config, write_python_model

LONG = {"IN": np.ones((1, 200_000), np.float32)}
TENSORS = """
    max_batch_size: 16
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
    output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""
INLINE = 'parameters { key: "execution" value { string_value: "inline" } }'
STEP = """
    platform: "ensemble"
    ensemble_scheduling {
      step { model_name: "plain" input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" } }
    }
"""
ECHO = """
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            arrays = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
            return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)]) for array in arrays]
"""
MODELS = {
    "plain": INLINE + " instance_group [ { count: 2 } ]",
    "process": "",
    "batched": INLINE + " dynamic_batching { max_queue_delay_microseconds: 1000 }",
    "cached": INLINE + " response_cache { enable: true }",
    "stateful": INLINE + " sequence_batching { }",
    "whole": STEP,
}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    for name, more in MODELS.items():
        if name == "whole":
            (write_config(folder, name, TENSORS + more) / "1").mkdir()
        else:
            write_python_model(folder, name, TENSORS + more, ECHO)
    ports = {"http_port": 0, "grpc_port": 0, "metrics_port": 0}
    options = {"model_control_mode": "explicit", "load_model": ["*"], "cache_config": {"local": {"size": "1024"}}}
    with Server(folder, **ports, **options) as started:
        yield started


def wait_until_none_is_held(server):
    """A thread gives them back on its way to its next wait, so a little after the answer."""
    give_up = time.monotonic() + PATIENCE_S
    while held := requests.get(f"http://localhost:{server.ports['metrics']}/live/state").json()["wire"]["body_bytes"]:
        assert time.monotonic() < give_up, f"{held} bytes are held"


@pytest.mark.parametrize("name", ["http-json", "http-binary", "grpc"])
@pytest.mark.parametrize("model", MODELS)
def test_after_inferences_one_by_one_and_many_at_once(server, name, model):
    def ask(count):
        door = open_door(name, server)
        for number in range(count):
            more = {"sequence_id": id(door), "sequence_start": True} if model == "stateful" else {}
            answer = door.infer(model, {"IN": LONG["IN"] + number}, **more)
            np.testing.assert_array_equal(answer["OUT"], LONG["IN"] + number)
        door.close()

    ask(1)
    wait_until_none_is_held(server)
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(ask, [2] * 6))
    wait_until_none_is_held(server)


def test_after_control_calls(server):
    """`generate`, and a load that brings files."""
    http = f"http://localhost:{server.ports['http']}"
    answer = requests.post(f"{http}/v2/models/process/generate", json={"IN": [1.0] * 20_000})
    assert answer.status_code == 200
    wait_until_none_is_held(server)
    config = {"backend": "python", "max_batch_size": 16, "parameters": {"execution": {"string_value": "inline"}}}
    with open_door("http-binary", server)._client as client:
        files = {"file:1/model.py": dedent(ECHO).encode(), "file:1/large": bytes(1_000_000)}
        client.load_model("brought", config=json.dumps(config), files=files)
    wait_until_none_is_held(server)
