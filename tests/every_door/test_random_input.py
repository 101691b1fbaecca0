"""Random damage to right requests, and random work by many clients: never a 500, never a lost or mixed answer."""

import json
import random
import threading

import grpc
import numpy as np
import pytest

from tests.every_door.doors import DOORS, open_door
from tests.every_door.raw import HEADER_LENGTH, RawGrpc, RawHttp, infer_pb2, one_input
from tests.models import onnx_models
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_config, write_python_model

ECHO = """
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            arrays = [pb_utils.get_input_tensor_by_name(each, "INPUT0").as_numpy() for each in requests]
            return [pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", array)]) for array in arrays]
"""
PYTHON = """
    max_batch_size: 8
    input [ { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
    output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] } ]
    dynamic_batching { }
    instance_group [ { count: 2 } ]
    parameters { key: "execution" value { string_value: "%s" } }
"""
MODELS = ("onnx", "isolated", "inline")


def lay_out(repository):
    onnx_models.save(onnx_models.identity("FP32"), repository, "onnx")
    write_config(repository, "onnx", "max_batch_size: 8 dynamic_batching { } instance_group [ { count: 2 } ]")
    for form in ("isolated", "inline"):
        write_python_model(repository, form, PYTHON % form, ECHO)
    for datatype in ("BYTES", "INT32"):
        onnx_models.save(onnx_models.identity(datatype), repository, datatype)


PIECES = [b"[", b"]", b"{", b"}", b'"', b",", b"-", b"1e400", b"null", b"\\u0000", b"\0"]


def damaged(body, chance):
    """A copy with a few bytes changed, dropped, doubled or moved."""
    made = bytearray(body)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(made)) if made else 0
        kind = chance.randrange(5)
        if kind == 0 and made:
            made[at] = chance.randrange(256)
        elif kind == 1:
            del made[at : at + chance.randint(1, 8)]
        elif kind == 2:
            made[at:at] = made[at : at + chance.randint(1, 20)]
        elif kind == 3:
            made[at:at] = chance.choice(PIECES)
        else:
            del made[at:]
    return bytes(made)


def documents():
    yield "onnx", json.dumps(one_input([1.5, -2.25, 1e-30], shape=[1, 3], id="x", parameters={"a": 1})).encode(), b""
    yield "INT32", json.dumps(one_input([1, -2, 2147483647], datatype="INT32", shape=[1, 3])).encode(), b""
    yield "BYTES", json.dumps(one_input(["a", "é", ""], datatype="BYTES", shape=[1, 3])).encode(), b""
    binary = {"name": "INPUT0", "datatype": "BYTES", "shape": [1, 2], "parameters": {"binary_data_size": 9}}
    tail = b"\x01\0\0\0a\0\0\0\0"
    outputs = [{"name": "OUTPUT0", "parameters": {"binary_data": True}}]
    yield "BYTES", json.dumps({"inputs": [binary], "outputs": outputs}).encode(), tail


@pytest.mark.parametrize("seed", range(4))
def test_damaged_http_requests(server, seed):
    chance = random.Random(seed)
    http = RawHttp(server)
    for _ in range(60):
        for model, text, tail in documents():
            broken, length = damaged(text + tail, chance), len(text)
            headers = {HEADER_LENGTH: str(length + chance.choice([0, 0, 0, 1, -1]))} if tail else {}
            answer = http.post(model, broken, headers)
            assert answer.status_code in (200, 400), (answer.status_code, answer.text, broken)
            if answer.status_code == 400:
                assert answer.json()["error"]
    assert http.infer("onnx", one_input([1.5], shape=[1, 1])).json()["outputs"][0]["data"] == [1.5]
    http.close()


@pytest.mark.parametrize("seed", range(4))
def test_damaged_grpc_messages(server, seed):
    chance = random.Random(seed)
    door = RawGrpc(server)
    call = door.channel.unary_unary("/inference.GRPCInferenceService/ModelInfer")
    asked = infer_pb2.ModelInferRequest(model_name="onnx", id="x", raw_input_contents=[bytes(8)])
    asked.inputs.add(name="INPUT0", datatype="FP32", shape=[1, 2]).parameters["a"].int64_param = 1
    asked.outputs.add(name="OUTPUT0")
    typed = infer_pb2.ModelInferRequest(model_name="BYTES")
    typed.inputs.add(name="INPUT0", datatype="BYTES", shape=[1, 2]).contents.bytes_contents.extend([b"a", b""])
    allowed = {
        grpc.StatusCode.OK,
        grpc.StatusCode.INVALID_ARGUMENT,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.UNIMPLEMENTED,
    }
    for message in (asked.SerializeToString(), typed.SerializeToString()):
        calls = [call.future(damaged(message, chance), timeout=PATIENCE_S) for _ in range(150)]
        for each in calls:
            assert each.code() in allowed, (each.code(), each.details())
    assert door.infer(asked).raw_output_contents[0] == bytes(8)
    door.close()


def test_many_clients_at_many_models(server):
    """Each client checks each of its answers; afterwards nothing is left over and everything was counted once."""
    before = {name: counts(server, name) for name in MODELS}
    wrong, sent = [], dict.fromkeys(MODELS, 0)
    lock = threading.Lock()

    def work(number):
        chance = random.Random(number)
        door = open_door(DOORS[number % len(DOORS)], server)
        for _ in range(60):
            name = chance.choice(MODELS)
            array = np.full((chance.randint(1, 3), chance.choice([1, 4, 30_000])), chance.random(), np.float32)
            got = door.infer(name, {"INPUT0": array})["OUTPUT0"]
            with lock:
                sent[name] += 1
                if not np.array_equal(got, array):
                    wrong.append((number, name, array.shape))
        door.close()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    for name in MODELS:
        model = server.model(name).loaded
        assert (model.pending_count, model.in_flight) == (0, 0)
        assert counts(server, name) - before[name] == sent[name]


def counts(server, name):
    return server.model(name).statistics().inference["success"].count


def test_many_clients_some_of_whom_leave(server):
    """Cancelled at random moments: the others get their answers, and every request ends exactly once."""
    chance = random.Random(1)
    models = [server.model(name) for name in MODELS]
    kept, left = [], 0
    for number in range(600):
        array = np.full((1, 4), number, np.float32)
        future = chance.choice(models).submit({"INPUT0": array})
        if chance.random() < 0.4:
            left += future.cancel()
        else:
            kept.append((array, future))
    for array, future in kept:
        np.testing.assert_array_equal(future.result(PATIENCE_S).outputs["OUTPUT0"].numpy(), array)
    assert left > 0
    for model in models:
        model.infer(INPUT0=np.zeros((1, 1), np.float32))
        assert model.loaded.wait_idle(PATIENCE_S)
        assert model.loaded.pending_count == 0
