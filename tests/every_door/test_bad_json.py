"""JSON that is wrong, strange, or right although it looks wrong. After each request the server serves on."""

import json
import math

import numpy as np
import pytest

from charonia.core.datatypes import DATATYPES
from tests.every_door.raw import RawHttp, one_input
from tests.models import onnx_models
from tests.models.repository import write_config, write_python_model

INTEGERS = ("INT8", "UINT8", "INT16", "UINT16", "INT32", "UINT32", "INT64", "UINT64")
ECHO = """
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            arrays = [pb_utils.get_input_tensor_by_name(each, "IN").as_numpy() for each in requests]
            return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)]) for array in arrays]
"""
STRANGE = """
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            values = [np.nan, np.inf, -np.inf, -0.0, 1e-45]
            return [
                pb_utils.InferenceResponse(
                    [pb_utils.Tensor("FP32", np.array(values, np.float32)), pb_utils.Tensor("FP64", np.array(values))]
                )
                for _ in requests
            ]
"""


def lay_out(repository):
    for datatype in (*INTEGERS, "FP32", "FP64", "BOOL", "BYTES"):
        onnx_models.save(onnx_models.identity(datatype, ["length"]), repository, datatype)
        write_config(repository, datatype, "max_batch_size: 0")
    onnx_models.save(onnx_models.identity("FP32", ["a", "b"]), repository, "matrix")
    write_config(repository, "matrix", "max_batch_size: 0")
    for datatype in ("BYTES", "INT64"):
        onnx_models.save(onnx_models.identity(datatype, ["N", 1]), repository, f"rows_{datatype}")
        write_config(repository, f"rows_{datatype}", "max_batch_size: 64")
    onnx_models.save(onnx_models.add_sub(), repository, "add_sub")
    for form in ("isolated", "inline"):
        write_python_model(
            repository,
            f"uint8_{form}",
            f"""
            input [ {{ name: "IN" data_type: TYPE_UINT8 dims: [ -1 ] }} ]
            output [ {{ name: "OUT" data_type: TYPE_UINT8 dims: [ -1 ] }} ]
            parameters {{ key: "execution" value {{ string_value: "{form}" }} }}
            """,
            ECHO,
        )
    write_python_model(
        repository,
        "strange",
        """
        input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
        output [ { name: "FP32" data_type: TYPE_FP32 dims: [ 5 ] }, { name: "FP64" data_type: TYPE_FP64 dims: [ 5 ] } ]
        parameters { key: "execution" value { string_value: "inline" } }
        """,
        STRANGE,
    )


@pytest.fixture
def http(server):
    """After the test the server must be live and answer rightly, on the same connection and on a new one."""
    opened = RawHttp(server)
    yield opened
    assert opened.client.get("/v2/health/live").status_code == 200
    for each in (opened, RawHttp(server)):
        assert values(each.infer("FP32", one_input([1.5, -2]))) == [1.5, -2]
        each.close()


def values(answer):
    assert answer.status_code == 200, answer.text
    return answer.json()["outputs"][0]["data"]


def refusal(answer, status=400):
    assert answer.status_code == status, answer.text
    return answer.json()["error"]


def limits(datatype):
    info = np.iinfo(DATATYPES[datatype].numpy)
    return int(info.min), int(info.max)


@pytest.mark.parametrize("datatype", INTEGERS)
def test_integers_never_wrap(http, datatype):
    least, most = limits(datatype)
    assert values(http.infer(datatype, one_input([least, most, 0], datatype=datatype))) == [least, most, 0]
    for wrong in ("1", True, None, [[]]):
        refusal(http.infer(datatype, one_input([0, wrong], shape=[2], datatype=datatype)))
    for wrong in (least - 1, most + 1, 1.5, 10**30):
        said = refusal(http.infer(datatype, one_input([0, wrong], datatype=datatype)))
        for named in (f"model '{datatype}'", "'INPUT0'", json.dumps(wrong), datatype):
            assert named in said


@pytest.mark.parametrize("form", ["isolated", "inline"])
def test_integers_never_wrap_on_their_way_to_a_python_model(http, form):
    model = f"uint8_{form}"
    for wrong in (256, -1, 1.5):
        said = refusal(http.infer(model, one_input([wrong], name="IN", datatype="UINT8")))
        assert "'IN'" in said
        assert str(wrong) in said
    assert values(http.infer(model, one_input([0, 255], name="IN", datatype="UINT8"))) == [0, 255]


def test_integers_beyond_doubles_keep_every_digit(http):
    for datatype, number in (("INT64", 2**53 + 1), ("INT64", -(2**63)), ("UINT64", 2**64 - 1)):
        assert values(http.infer(datatype, one_input([number], datatype=datatype))) == [number]


@pytest.mark.parametrize("data", ['["a","b"]', '[["a","b"]]', '[["a"],["b"]]', '[[["a"]],["b"]]'])
def test_nesting_of_text_is_free_in_json(http, data):
    document = one_input(json.loads(data), datatype="BYTES", shape=[2, 1])
    answer = http.infer("rows_BYTES", document)
    assert values(answer) == ["a", "b"]
    assert answer.json()["outputs"][0]["shape"] == [2, 1]


def test_nesting_of_numbers_is_free_in_json(http):
    for data in ([1, 2, 3, 4], [[1, 2], [3, 4]], [[1], [2, [3]], 4]):
        assert values(http.infer("matrix", one_input(data, shape=[2, 2]))) == [1, 2, 3, 4]


@pytest.mark.parametrize("words", [[""], ["nul\0inside"], ["größer 😀"], ['"\\/\b\f\n\r\t'], ["x" * 10_000_000]])
def test_text_of_every_kind(http, words):
    assert values(http.infer("BYTES", one_input(words, datatype="BYTES"))) == words


def test_a_lone_surrogate_is_refused_or_answered_as_it_came(http):
    answer = http.infer("BYTES", rb'{"inputs":[{"name":"INPUT0","datatype":"BYTES","shape":[1],"data":["\ud800"]}]}')
    assert "surrogate" in refusal(answer)


@pytest.mark.parametrize("datatype", ["BYTES", "INT64"])
def test_depth_is_limited(http, datatype):
    element = '"a"' if datatype == "BYTES" else "7"
    body = '{"inputs":[{"name":"INPUT0","datatype":"%s","shape":[1,1],"data":%s}]}'

    def nested(depth):
        return (body % (datatype, "[" * depth + element + "]" * depth)).encode()

    assert values(http.infer(f"rows_{datatype}", nested(50))) == [json.loads(element)]
    for depth in (120, 100_000):
        said = refusal(http.infer(f"rows_{datatype}", nested(depth)))
        assert "JSON nesting depth exceeds maximum allowed limit (100)" in said


@pytest.mark.parametrize(
    "where", ['{"id":%s}', '{"parameters":{"a":%s},"inputs":[]}', '{"unknown":%s,"inputs":[]}', "%s"]
)
@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_depth_is_limited_everywhere(http, where, opening):
    closing = "]" if opening == "[" else "}"
    refusal(http.infer("FP32", (where % (opening * 5000 + "1" + closing * 5000)).encode()))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"{}",
        b'{"inputs":{}}',
        b'{"inputs":[7]}',
        b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"data":[1]}]} trailing',
        b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"data":[1}]}',
        b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"data":[01]}]}',
        b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"data":[1.]}]}',
        b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"data":[1,]}]}',
        b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"data":"1"}]}',
        b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"data":[1e999]}]}',
        b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"data":[3.5e38]}]}',
        b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1]}]}',
        b'{"inputs":[{"name":"INPUT0","datatype":"FP32","data":[1]}]}',
        b'{"inputs":[{"name":"INPUT0","shape":[1],"data":[1]}]}',
        b'{"inputs":[{"datatype":"FP32","shape":[1],"data":[1]}]}',
        b'{"inputs":[{"name":7,"datatype":"FP32","shape":[1],"data":[1]}]}',
        b'{"inputs":[{"name":"INPUT0","datatype":"FP31","shape":[1],"data":[1]}]}',
        b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1.5],"data":[1]}]}',
        b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":["1"],"data":[1]}]}',
        b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":1,"data":[1]}]}',
        b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[-1],"data":[1]}]}',
        b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[9223372036854775808],"data":[1]}]}',
        b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[4294967296,4294967296],"data":[1]}]}',
        b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[2],"data":[1]}]}',
        b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"data":[1,2]}]}',
        b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"data":[{"a":1}]}]}',
        b'{"id":7,"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"data":[1]}]}',
        b'{"outputs":[{}],"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"data":[1]}]}',
        b'{"outputs":7,"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"data":[1]}]}',
        b'{"parameters":[],"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"data":[1]}]}',
        b'{"parameters":{"priority":"high"},"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"data":[1]}]}',
        b'{"parameters":{"timeout":-1},"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"data":[1]}]}',
        b'{"inputs":[{"name":"INPUT0","datatype":"FP32","shape":[1],"parameters":{"binary_data_size":4}}]}',
        b'\xff\xfe{"inputs":[]}',
        b'{"inputs":[{"name":"\xff","datatype":"FP32","shape":[1],"data":[1]}]}',
    ],
)
def test_malformed_json_is_refused_with_a_reason(http, body):
    assert len(refusal(http.infer("FP32", body))) > 20


def test_duplicates_are_named(http):
    tensor = {"name": "INPUT0", "datatype": "FP32", "shape": [1, 16], "data": [0] * 16}
    other = tensor | {"name": "INPUT1"}
    said = refusal(http.infer("add_sub", {"inputs": [tensor, other, tensor]}))
    assert "'INPUT0' already exists in request" in said
    document = {"inputs": [tensor, other], "outputs": [{"name": "OUTPUT1"}, {"name": "OUTPUT1"}]}
    assert "'OUTPUT1' already exists in request" in refusal(http.infer("add_sub", document))


def test_infinities_and_not_a_number_are_written_as_tokens(http):
    answer = http.infer("strange", one_input([1.0], name="IN"))
    for output in json.loads(answer.content)["outputs"]:
        assert math.isnan(output["data"][0])
        assert output["data"][1:3] == [math.inf, -math.inf]
        assert math.copysign(1, output["data"][3]) == -1
        assert np.dtype(DATATYPES[output["datatype"]].numpy).type(output["data"][4]) == np.array(
            [1e-45], DATATYPES[output["datatype"]].numpy
        )
    assert b"NaN" in answer.content
    assert b"-Infinity" in answer.content


@pytest.mark.parametrize("datatype", ["FP32", "FP64"])
def test_infinities_and_not_a_number_are_read(http, datatype):
    sent = [math.inf, -math.inf, -0.0, 1e-45, math.nan]
    text = json.dumps(one_input(sent, datatype=datatype))
    assert "NaN" in text
    got = json.loads(http.infer(datatype, text.encode()).content)["outputs"][0]["data"]
    np.testing.assert_array_equal(np.array(got), np.array(sent, DATATYPES[datatype].numpy))


def test_only_the_exact_tokens_are_numbers(http):
    for token in ("nan", "inf", "+1", "-NaN1", "infinity", "0x10", "1_000", ".5", "NaNN"):
        body = json.dumps(one_input([1234])).replace("1234", token)
        refusal(http.infer("FP32", body.encode()))
