"""Names, ids and counts that were made to break something: refused or carried, never believed."""

import json
import re

import grpc
import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tritonclient.grpc import service_pb2

from charonia.api import Server
from tests.every_door.raw import RawGrpc, RawHttp, one_input
from tests.models import onnx_models
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_config, write_python_model

LIMIT = 4_000_000
OPTIONS = {"http_max_input_size": LIMIT, "model_control_mode": "explicit", "load_model": ("*",)}
ECHO = """
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            arrays = [pb_utils.get_input_tensor_by_name(each, "IN").as_numpy() for each in requests]
            return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)]) for array in arrays]
"""


def lay_out(repository):
    onnx_models.save(onnx_models.identity("FP32", ["length"]), repository, "FP32")
    write_config(repository, "FP32", "max_batch_size: 0")
    for datatype in ("FP32", "STRING"):
        write_python_model(
            repository,
            f"cube_{datatype}",
            f"""
            input [ {{ name: "IN" data_type: TYPE_{datatype} dims: [ -1, -1, -1 ] }} ]
            output [ {{ name: "OUT" data_type: TYPE_{datatype} dims: [ -1, -1, -1 ] }} ]
            parameters {{ key: "execution" value {{ string_value: "inline" }} }}
            """,
            ECHO,
        )


GOOD = json.dumps(one_input([1.5, -2])).encode()


@pytest.fixture
def doors(server):
    """After the test both answer rightly."""
    http, opened = RawHttp(server), RawGrpc(server)
    yield http, opened
    assert http.infer("FP32", GOOD).json()["outputs"][0]["data"] == [1.5, -2]
    assert opened.infer(message("FP32")).outputs[0].shape == [1]
    http.close()
    opened.close()


def message(model, *, name="INPUT0", datatype="FP32", shape=(1,), raw=b"\0\0\0\0", **fields):
    asked = service_pb2.ModelInferRequest(model_name=model, raw_input_contents=[raw], **fields)
    asked.inputs.add(name=name, datatype=datatype, shape=shape)
    return asked


def refused(door, asked, code=grpc.StatusCode.INVALID_ARGUMENT):
    with pytest.raises(grpc.RpcError) as error:
        door.infer(asked)
    assert error.value.code() == code
    return error.value.details()


def refusal(answer, status=400):
    assert answer.status_code == status, answer.text
    return answer.json()["error"]


TENSOR = b'{"name":"%d","datatype":"FP32","shape":[0],"data":[]}'


@pytest.mark.parametrize(
    ("body", "flag"),
    [
        (b'{"inputs":[%s]}' % b",".join(TENSOR % at for at in range(60_000)), "--request-max-tensors"),
        (b'{"outputs":[%s],"inputs":[]}' % b",".join([b'{"name":"a"}'] * 200_000), "--request-max-tensors"),
        (
            b'{"parameters":{%s},"inputs":[]}' % b",".join(b'"%d":1' % at for at in range(300_000)),
            "--request-max-parameters",
        ),
        (
            b'{"inputs":[{"name":"a","parameters":{%s}}]}' % b",".join(b'"%d":1' % at for at in range(300_000)),
            "--request-max-parameters",
        ),
    ],
)
def test_very_many_names_in_json(doors, body, flag):
    assert len(body) < LIMIT
    assert flag in refusal(doors[0].infer("FP32", body))


def test_very_many_names_in_a_message(doors):
    asked = message("FP32")
    for _ in range(1_000_000):
        asked.outputs.add()
    assert "--request-max-tensors" in refused(doors[1], asked)
    asked = message("FP32")
    for name in range(200_000):
        asked.parameters[str(name)].bool_param = True
    assert "--request-max-parameters" in refused(doors[1], asked)


@pytest.mark.parametrize("datatype", ["FP32", "STRING"])
@pytest.mark.parametrize(
    "shape", [(0, 2**31, 2**31), (2**62, 0, 2), (0, 2**40, 2**40), (2**31, 0, 2**29), (0, 0, 2**62), (1,) * 70]
)
def test_billions_of_elements_of_nothing(doors, datatype, shape):
    """What no array can have is refused before any model sees it, although there is nothing in it."""
    http, opened = doors
    model, kind = f"cube_{datatype}", {"STRING": "BYTES"}.get(datatype, datatype)
    answer = http.infer(model, one_input([], name="IN", datatype=kind, shape=list(shape)))
    assert answer.status_code in (200, 400), answer.text
    asked = message(model, name="IN", datatype=kind, shape=shape, raw=b"")
    if answer.status_code == 400:
        assert "IN" in refused(opened, asked)
    else:
        assert opened.infer(asked).outputs[0].shape == list(shape)
        assert answer.json()["outputs"][0]["shape"] == list(shape)


def test_a_million_dims(doors):
    http, opened = doors
    assert "dims" in refusal(http.infer("FP32", one_input([1], shape=[1] * 1_000_000)))
    assert "dims" in refused(opened, message("FP32", shape=[1] * 1_000_000))


@pytest.mark.parametrize("nesting", [b"\x0b" * 100_000, b"\xfa\x3f\x00" * 50_000, b"\x2a\x80\x80\x80\x80\x08"])
@pytest.mark.parametrize("method", ["ModelInfer", "ModelMetadata", "RepositoryIndex", "ServerReady", "ModelReady"])
def test_protobuf_in_protobuf(doors, method, nesting):
    call = doors[1].channel.unary_unary(f"/inference.GRPCInferenceService/{method}")
    code = call.future(nesting, timeout=PATIENCE_S).code()
    assert code in (grpc.StatusCode.OK, grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.NOT_FOUND)


@pytest.mark.parametrize(
    "path",
    [
        "/v2/repository/index",
        "/v2/repository/models/FP32/load",
        "/v2/repository/models/FP32/unload",
        "/v2/logging",
    ],
)
def test_the_limits_hold_on_every_route(doors, path):
    client = doors[0].client
    too_long = client.post(path, content=b'{"parameters":{"file:1/model.onnx":"' + b"A" * LIMIT + b'"}}')
    said = refusal(too_long)
    assert f"bytes exceeds the maximum allowed input size of {LIMIT} bytes. Use --http-max-input-size" in said
    for deep in (b"[" * 100_000, b'{"a":' * 100_000, b'{"parameters":' + b"[" * 3000 + b"]" * 3000 + b"}"):
        answer = client.post(path, content=deep)
        assert answer.status_code in (400, 405), answer.text


HOSTILE = [
    "line\nbreak",
    "I1130 00:00:00.000000 1 forged.cc:1] true\n",
    "\x1b[31mred",
    'quote"} 7\n#',
    "\0",
    "\u2028",
    "é" * 300,
]


@pytest.mark.parametrize("name", HOSTILE)
def test_names_never_become_lines_of_the_log_or_labels_of_metrics(tmp_path, repository, name):
    log = tmp_path / "log"
    ports = {"http_port": 0, "grpc_port": 0, "metrics_port": 0}
    with Server(repository, **ports, log_file=str(log), log_verbose=2) as server:
        http, opened = RawHttp(server), RawGrpc(server)
        quoted = "".join(f"%{byte:02x}" for byte in name.encode())
        for verb in ("infer", "ready"):
            http.client.post(f"/v2/models/{quoted}/{verb}", content=GOOD)
        for path in (f"/v2/models/{quoted}", f"/v2/models/{quoted}/stats", f"/v2/{quoted}"):
            http.client.get(path)
        named = json.dumps(one_input([1.5], name=name, id=name, parameters={name: name}, outputs=[{"name": name}]))
        refusal(http.infer("FP32", named.encode()))
        given = json.dumps(one_input([1.5], id=name, parameters={name: name}))
        assert http.infer("FP32", given.encode()).json()["id"] == name
        for asked in (message(name, id=name), message("FP32", name=name), message("FP32", datatype=name)):
            with pytest.raises(grpc.RpcError):
                opened.infer(asked)
        metrics = httpx.get(f"http://127.0.0.1:{server.ports['metrics']}/metrics", timeout=PATIENCE_S).text
        families = list(text_string_to_metric_families(metrics))
        labels = {value for family in families for sample in family.samples for value in sample.labels.values()}
        assert name not in labels
        http.close()
        opened.close()
    lines = log.read_text(encoding="utf-8").split("\n")
    assert len(lines) > 10
    for line in filter(None, lines):
        assert re.match(r"[IWEV]\d{4} ", line), line
        assert "\x1b" not in line
        assert "\0" not in line
    assert not [line for line in lines if line.startswith("I1130 00:00:00.000000 1 forged")]
