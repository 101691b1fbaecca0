"""Ids, names and parameters with everything that text can hold, through every door."""

import json

import numpy as np
import pytest

from tests.every_door.doors import RefusedError
from tests.every_door.raw import RawHttp, one_input
from tests.models import onnx_models
from tests.models.repository import write_config, write_python_model

ODD_MODEL = "größe 1+1 (a) 😀"
TELLS = """
    import json
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            said = [json.dumps([each.request_id(), json.loads(each.parameters())]).encode() for each in requests]
            tensors = [pb_utils.Tensor("sortie é", np.array([[word]], np.object_)) for word in said]
            return [pb_utils.InferenceResponse([tensor]) for tensor in tensors]
"""


def lay_out(repository):
    onnx_models.save(onnx_models.add_sub(), repository, "add_sub")
    onnx_models.save(onnx_models.identity("FP32"), repository, ODD_MODEL)
    write_config(repository, ODD_MODEL, "max_batch_size: 2")
    for form in ("isolated", "inline"):
        write_python_model(
            repository,
            f"tells_{form}",
            f"""
            max_batch_size: 4
            input [ {{ name: "entrée" data_type: TYPE_FP32 dims: [ 1 ] }} ]
            output [ {{ name: "sortie é" data_type: TYPE_STRING dims: [ 1 ] }} ]
            parameters {{ key: "execution" value {{ string_value: "{form}" }} }}
            """,
            TELLS,
        )


def ones():
    return {name: np.ones((1, 16), np.float32) for name in ("INPUT0", "INPUT1")}


IDS = ["plain", 'quote " backslash \\ slash /', "größe 😀", "line\nbreak\ttab", "{}[],:", "x" * 100_000, "0"]


@pytest.mark.parametrize("id", IDS, ids=lambda text: text[:12])
def test_ids_come_back_as_they_were(door, id):
    assert door.infer("add_sub", ones(), id=id).id == id


@pytest.mark.parametrize("form", ["isolated", "inline"])
@pytest.mark.parametrize("id", IDS, ids=lambda text: text[:12])
def test_models_see_ids_names_and_parameters_as_they_were(door, form, id):
    parameters = {"text": id, "größe": "😀", "large": 2**53 + 1, "small": -(2**63), "yes": False, "half": -0.5}
    answer = door.infer(f"tells_{form}", {"entrée": np.zeros((1, 1), np.float32)}, id=id, parameters=parameters)
    assert json.loads(answer["sortie é"][0, 0]) == [id, parameters]


def test_model_names_of_every_kind(door):
    got = door.infer(ODD_MODEL, {"INPUT0": np.ones((1, 2), np.float32)})["OUTPUT0"]
    np.testing.assert_array_equal(got, np.ones((1, 2), np.float32))


@pytest.mark.parametrize("name", ["../etc", "a/b", "", " ", "%2e", "add_sub\0", "add_sub ", "ADD_SUB", "x" * 5000])
def test_names_that_are_not_there(door, name):
    with pytest.raises(RefusedError) as refused:
        door.infer(name, ones())
    assert refused.value.code in ("NOT_FOUND", "INVALID_ARGUMENT")
    assert door.infer("add_sub", ones())["OUTPUT0"][0, 0] == 2


def test_the_reason_is_told_beside_a_very_long_id(door):
    with pytest.raises(RefusedError, match="expected 2 inputs but got 0 inputs for model 'add_sub'"):
        door.infer("add_sub", {}, id="x" * 100_000)


@pytest.mark.parametrize("version", ["0", "99", "9223372036854775807"])
def test_versions_that_are_not_there(door, version):
    with pytest.raises(RefusedError) as refused:
        door.infer("add_sub", ones(), version=version)
    assert refused.value.code == "NOT_FOUND"


@pytest.mark.parametrize("name", ["OUTPUT", "output0", "OUTPUT0 ", "😀", "x" * 5000, ""])
def test_outputs_that_are_not_there(door, name):
    with pytest.raises(RefusedError, match="add_sub") as refused:
        door.infer("add_sub", ones(), outputs=[name])
    assert refused.value.code == "INVALID_ARGUMENT"
    assert len(str(refused.value)) < 2000


def test_reserved_parameters_are_refused(server):
    http = RawHttp(server)
    document = one_input([1.0], name="entrée", shape=[1, 1], parameters={"triton_enable_empty_final_response": True})
    answer = http.infer("tells_inline", document)
    http.close()
    assert answer.status_code == 400
    assert "reserved" in answer.json()["error"]


@pytest.mark.parametrize("value", [{"a": 1}, [1], None, 10**30])
def test_parameters_of_other_kinds_are_refused(server, value):
    http = RawHttp(server)
    answer = http.infer("tells_inline", one_input([1.0], name="entrée", shape=[1, 1], parameters={"mine": value}))
    http.close()
    assert answer.status_code == 400
    assert "mine" in answer.json()["error"]


def test_no_outputs_named_means_all(server):
    http = RawHttp(server)
    tensor = {"datatype": "FP32", "shape": [1, 16], "data": [1] * 16}
    document = {"inputs": [tensor | {"name": "INPUT0"}, tensor | {"name": "INPUT1"}], "outputs": []}
    names = [output["name"] for output in http.infer("add_sub", document).json()["outputs"]]
    http.close()
    assert names == ["OUTPUT0", "OUTPUT1"]
