"""Python models through every door, in both forms: what they are told, what they may answer, and how they fail."""

import gc
import json

import numpy as np
import psutil
import pytest

from tests.every_door.doors import RefusedError
from tests.every_door.raw import RawGrpc, RawHttp, infer_pb2, one_input
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_python_model

FORMS = ("isolated", "inline")
HEAD = """
import asyncio
import json
import numpy as np
import triton_python_backend_utils as pb_utils

def given(request, name="IN"):
    return pb_utils.get_input_tensor_by_name(request, name).as_numpy()

def answer(array, **more):
    return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)], **more)
"""
FACTS = """
class TritonPythonModel:
    def execute(self, requests):
        return [answer(np.array([[json.dumps(self.facts(request)).encode()]], np.object_)) for request in requests]

    def facts(self, request):
        return {
            "id": request.request_id(),
            "parameters": json.loads(request.parameters()),
            "outputs": request.requested_output_names(),
            "timeout": request.timeout(),
            "priority": request.priority(),
            "correlation": request.correlation_id(),
            "words": [word.decode() for word in given(request).ravel()],
        }
"""
CODES = """
class TritonPythonModel:
    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        name = json.loads(request.parameters()).get("code")
        if name is None:
            return answer(given(request))
        error = pb_utils.TritonError(f"I say {name}", getattr(pb_utils.TritonError, name))
        return pb_utils.InferenceResponse(error=error)
"""
FAILS = """
class TritonPythonModel:
    def execute(self, requests):
        kinds = {json.loads(request.parameters()).get("kind") for request in requests}
        if "raise" in kinds:
            raise ValueError("no luck today")
        if "none" in kinds:
            return None
        if "short" in kinds:
            return []
        if "junk" in kinds:
            return [7 for _ in requests]
        return [answer(given(request)) for request in requests]
"""
WRONG = """
class TritonPythonModel:
    def execute(self, requests):
        return [self.one(request) for request in requests]

    def one(self, request):
        kind = json.loads(request.parameters()).get("kind")
        if kind == "datatype":
            return answer(np.full((1, 1), 257, np.int64))
        if kind == "name":
            return pb_utils.InferenceResponse([pb_utils.Tensor("NOPE", given(request))])
        if kind == "rank":
            return answer(np.zeros((1, 2, 2), np.uint8))
        return answer(given(request))
"""
TEXTS = """
class TritonPythonModel:
    def execute(self, requests):
        words = [b"a", b"", b"nul at the end\\0", b"\\0", "gr\\u00f6\\u00dfer".encode()]
        return [answer(np.array([words], np.object_)) for _ in requests]
"""
ASYNC = """
class TritonPythonModel:
    async def execute(self, requests):
        return await asyncio.gather(*[self.one(request) for request in requests])

    async def one(self, request):
        await asyncio.sleep(0)
        return answer(given(request) * 2)
"""
PARAMETERS = """
class TritonPythonModel:
    def execute(self, requests):
        return [
            answer(given(request), parameters={"text": "word", "whole": 7, "yes": True})
            for request in requests
        ]
"""
IN_PLACE = """
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            given(request)[...] += 1
        return [answer(given(request)) for request in requests]
"""
MODELS = {
    "facts": (FACTS, "STRING", "priority_levels: 5 default_priority_level: 3"),
    "codes": (CODES, "FP32", ""),
    "fails": (FAILS, "FP32", ""),
    "wrong": (WRONG, "UINT8", ""),
    "texts": (TEXTS, "STRING", ""),
    "async": (ASYNC, "FP32", ""),
    "parameters": (PARAMETERS, "FP32", ""),
    "in_place": (IN_PLACE, "FP32", ""),
}


def lay_out(repository):
    for name, (code, datatype, batching) in MODELS.items():
        for form in FORMS:
            config = f"""
                max_batch_size: 8
                input [ {{ name: "IN" data_type: TYPE_{datatype} dims: [ -1 ] }} ]
                output [ {{ name: "OUT" data_type: TYPE_{datatype} dims: [ -1 ] }} ]
                dynamic_batching {{ {batching} }}
                parameters {{ key: "execution" value {{ string_value: "{form}" }} }}
            """
            write_python_model(repository, f"{name}_{form}", config, HEAD + code)


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


def floats(*values):
    return {"IN": np.array([values], np.float32)}


def test_what_a_model_is_told(door, form):
    words = np.array([[b"one", b"two"]], np.object_)
    answer = door.infer(
        f"facts_{form}",
        {"IN": words},
        id="the id",
        parameters={"text": "größer", "whole": -3, "yes": True, "half": 0.5},
        outputs=["OUT"],
        priority=2,
        timeout_us=60_000_000,
    )
    assert json.loads(answer["OUT"][0, 0]) == {
        "id": "the id",
        "parameters": {"text": "größer", "whole": -3, "yes": True, "half": 0.5},
        "outputs": ["OUT"],
        "timeout": 60_000_000,
        "priority": 2,
        "correlation": 0,
        "words": ["one", "two"],
    }


def test_what_a_model_is_told_when_the_client_says_nothing(door, form):
    told = json.loads(door.infer(f"facts_{form}", {"IN": np.array([[b""]], np.object_)})["OUT"][0, 0])
    assert told == {
        "id": "",
        "parameters": {},
        "outputs": ["OUT"],
        "timeout": 0,
        "priority": 0,
        "correlation": 0,
        "words": [""],
    }


# A model's code: what gRPC calls it. HTTP has fewer words: several of them are a 400 there.
CODED = {
    "UNKNOWN": "UNKNOWN",
    "INTERNAL": "INTERNAL",
    "NOT_FOUND": "NOT_FOUND",
    "INVALID_ARG": "INVALID_ARGUMENT",
    "UNAVAILABLE": "UNAVAILABLE",
    "UNSUPPORTED": "UNIMPLEMENTED",
    "ALREADY_EXISTS": "ALREADY_EXISTS",
    "CANCELLED": "CANCELLED",
}
BAD_REQUEST_OVER_HTTP = ("UNKNOWN", "ALREADY_EXISTS", "CANCELLED")


@pytest.mark.parametrize("code", CODED)
def test_codes_of_a_models_errors_reach_the_client(door, form, code):
    with pytest.raises(RefusedError, match=f"I say {code}") as refused:
        door.infer(f"codes_{form}", floats(1), parameters={"code": code})
    bad_request = door.name.startswith("http") and code in BAD_REQUEST_OVER_HTTP
    assert refused.value.code == ("INVALID_ARGUMENT" if bad_request else CODED[code])
    np.testing.assert_array_equal(door.infer(f"codes_{form}", floats(1))["OUT"], [[1]])


@pytest.mark.parametrize(
    ("kind", "said"), [("raise", "no luck today"), ("none", "None"), ("short", "0"), ("junk", "InferenceResponse")]
)
def test_a_failure_is_told_and_the_next_request_is_answered(door, form, kind, said):
    model = f"fails_{form}"
    for _ in range(3):
        with pytest.raises(RefusedError, match=said) as refused:
            door.infer(model, floats(1), parameters={"kind": kind})
        assert refused.value.code == "INTERNAL"
        assert model in str(refused.value)
        np.testing.assert_array_equal(door.infer(model, floats(2, 3))["OUT"], [[2, 3]])


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("datatype", "'OUT'.*(INT64.*UINT8|UINT8.*INT64)"),
        ("name", "NOPE"),
        ("rank", "'OUT'"),
    ],
)
def test_a_wrong_output_is_refused_and_never_wrapped(door, form, kind, said):
    model, inputs = f"wrong_{form}", {"IN": np.array([[255]], np.uint8)}
    with pytest.raises(RefusedError, match=said) as refused:
        door.infer(model, inputs, parameters={"kind": kind})
    assert refused.value.code == "INTERNAL"
    assert door.infer(model, inputs)["OUT"].tolist() == [[255]]


def test_text_keeps_its_zeros(door, form):
    answer = door.infer(f"texts_{form}", {"IN": np.array([[b"x"]], np.object_)})
    assert answer["OUT"].tolist() == [[b"a", b"", b"nul at the end\0", b"\0", "größer".encode()]]


def test_async_models(door, form):
    np.testing.assert_array_equal(door.infer(f"async_{form}", floats(1, 2, 3))["OUT"], [[2, 4, 6]])


def test_a_model_may_change_its_inputs_in_place_and_the_client_keeps_its_own(door, form):
    mine = floats(1, 2)
    np.testing.assert_array_equal(door.infer(f"in_place_{form}", mine)["OUT"], [[2, 3]])
    np.testing.assert_array_equal(mine["IN"], [[1, 2]])


def test_parameters_of_responses(server, form):
    expected = {"text": "word", "whole": 7, "yes": True}
    http = RawHttp(server)
    answer = http.infer(f"parameters_{form}", one_input([1.5], name="IN", shape=[1, 1]))
    http.close()
    assert answer.json()["parameters"] == expected
    door = RawGrpc(server)
    asked = infer_pb2.ModelInferRequest(model_name=f"parameters_{form}", raw_input_contents=[bytes(4)])
    asked.inputs.add(name="IN", datatype="FP32", shape=[1, 1])
    got = door.infer(asked).parameters
    door.close()
    assert {key: getattr(value, value.WhichOneof("parameter_choice")) for key, value in got.items()} == expected
    (result,) = [server.model(f"parameters_{form}").submit(floats(1)).result()]
    assert dict(result.parameters) == expected


def test_many_failures_with_large_inputs_leave_nothing_behind(server, form):
    large = np.zeros((1, 1_000_000), np.float32)
    model = server.model(f"fails_{form}")

    def fail(times):
        for _ in range(times):
            assert model.submit({"IN": large}, parameters={"kind": "raise"}).exception(PATIENCE_S) is not None

    fail(10)
    files, memory = held_by_all()
    fail(60)
    files_now, memory_now = held_by_all()
    assert files_now == files  # shared memory is held by open files
    assert memory_now - memory < 30 * large.nbytes  # half of what was sent: allocators keep some, a leak keeps all
    np.testing.assert_array_equal(model.infer({"IN": large + 1})["OUT"], large + 1)


def held_by_all():
    """Open files and bytes of this process and of the models' own."""
    gc.collect()
    this = psutil.Process()
    everybody = (this, *this.children(recursive=True))
    return sum(each.num_fds() for each in everybody), sum(each.memory_info().rss for each in everybody)
