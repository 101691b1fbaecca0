"""Regions of shared memory: every bound, every mistake, and what their owners may do to them meanwhile."""

import json
import os
import queue
from concurrent.futures import ThreadPoolExecutor

import grpc
import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from charonia.api import Server
from tests.every_door.raw import RawGrpc, RawHttp, infer_pb2
from tests.every_door.region_doors import Segment, segment_files
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_config, write_python_model

OPTIONS = {"allow_client_shm": True}
FORMS = ("isolated", "inline")
PAIR = """
input [ {{ name: "A" data_type: {0} dims: {1} }}, {{ name: "B" data_type: {0} dims: {1} }} ]
output [ {{ name: "X" data_type: {0} dims: {1} }}, {{ name: "Y" data_type: {0} dims: {1} }} ]
"""
ONE = 'input {{ name: "A" data_type: {0} dims: {1} }} output {{ name: "X" data_type: {0} dims: {1} }} '
FORM = 'parameters {{ key: "execution" value {{ string_value: "{}" }} }}\n'
PLUS_ONE = """
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("X", request.inputs()[0].as_numpy() + 1)])
            for request in requests
        ]
"""
# A number of responses, each with one more than the one before.
COUNTING = """
import numpy as np
import triton_python_backend_utils as pb_utils

class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for number in range(int(request.inputs()[0].as_numpy()[0])):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("X", np.array([number], np.int32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def lay_out(folder):
    write_config(folder, "pair", 'backend: "identity"\n' + PAIR.format("TYPE_INT32", "[ 4 ]"))
    write_config(folder, "texts", 'backend: "identity"\n' + ONE.format("TYPE_STRING", "[ -1 ]"))
    batched = "max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 200000 }\n"
    write_config(folder, "rows", 'backend: "identity"\n' + batched + ONE.format("TYPE_INT32", "[ -1 ]"))
    numbers = ONE.format("TYPE_INT32", "[ -1 ]")
    for form in FORMS:
        write_python_model(folder, f"plus_{form}", FORM.format(form) + numbers, PLUS_ONE)
        config = FORM.format(form) + "model_transaction_policy { decoupled: true }\n" + numbers
        write_python_model(folder, f"counting_{form}", config, COUNTING)
    step = 'step {{ model_name: "{}" model_version: -1 input_map {{ key: "A" value: "{}" }} '
    steps = [
        step.format(model, source) + f'output_map {{ key: "X" value: "{target}" }} }}'
        for model, source, target in [("plus_isolated", "A", "between"), ("plus_inline", "between", "X")]
    ]
    config = f'platform: "ensemble"\n{numbers} ensemble_scheduling {{ {" ".join(steps)} }}'
    write_config(folder, "twice", config)
    for model in folder.iterdir():
        (model / "1").mkdir(exist_ok=True)


def place(region, nbytes=None, offset=None):
    """The parameters of a tensor in a region."""
    found = {"shared_memory_region": region, "shared_memory_byte_size": nbytes, "shared_memory_offset": offset}
    return {key: value for key, value in found.items() if value is not None}


class Http:
    name = "http"

    def __init__(self, server):
        self.raw = RawHttp(server)
        self.client = httpclient.InferenceServerClient(f"127.0.0.1:{server.ports['http']}")

    def ask(self, model, inputs, outputs=()):
        """(code, error or answer); inputs by name: datatype, shape, parameters or data."""
        document = {
            "inputs": [
                {"name": name, "datatype": datatype, "shape": shape}
                | ({"parameters": given} if isinstance(given, dict) else {"data": given})
                for name, (datatype, shape, given) in inputs.items()
            ]
        }
        if outputs:
            document["outputs"] = [{"name": name, "parameters": given} for name, given in outputs.items()]
        answer = self.raw.infer(model, document)
        codes = {200: "OK", 400: "INVALID_ARGUMENT", 404: "NOT_FOUND", 501: "UNIMPLEMENTED"}
        return codes.get(answer.status_code, answer.status_code), answer.json().get("error", answer.json())

    def names(self):
        return [each["name"] for each in self.client.get_system_shared_memory_status()]

    def close(self):
        self.raw.close()
        self.client.close()


class Grpc:
    name = "grpc"

    def __init__(self, server):
        self.raw = RawGrpc(server)
        self.client = grpcclient.InferenceServerClient(f"127.0.0.1:{server.ports['grpc']}")

    def ask(self, model, inputs, outputs=()):
        try:
            return "OK", self.raw.infer(self.message(model, inputs, outputs))
        except grpc.RpcError as error:
            return error.code().name, error.details()

    @staticmethod
    def message(model, inputs, outputs=()):
        message = infer_pb2.ModelInferRequest(model_name=model)
        for name, (datatype, shape, given) in inputs.items():
            tensor = message.inputs.add(name=name, datatype=datatype, shape=shape)
            if isinstance(given, dict):
                fill(tensor.parameters, given)
            else:
                tensor.contents.int_contents.extend(given)
        for name, given in (outputs or {}).items():
            fill(message.outputs.add(name=name).parameters, given)
        return message

    def names(self):
        return sorted(self.client.get_system_shared_memory_status().regions)

    def close(self):
        self.raw.close()
        self.client.close()


def fill(parameters, given):
    for key, value in given.items():
        kind = {bool: "bool_param", int: "int64_param", str: "string_param", float: "double_param"}[type(value)]
        setattr(parameters[key], kind, value)


WAYS = {"http": Http, "grpc": Grpc}


@pytest.fixture(params=WAYS)
def way(request, server):
    opened = WAYS[request.param](server)
    yield opened
    opened.client.unregister_system_shared_memory()
    opened.close()
    assert not segment_files()


@pytest.fixture
def segment(way):
    made = []

    def make(nbytes, offset=0):
        made.append(Segment(way.client, nbytes, offset))
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def file():
    """A segment that is not registered: its key and its file."""
    name = f"charonia_test_{os.getpid()}_file"
    path = f"/dev/shm/{name}"
    with open(path, "wb") as made:
        made.truncate(64)
    yield name, path
    os.unlink(path)


ROW = ("INT32", [4])
DATA = [1, 2, 3, 4]


def test_tensors_lie_side_by_side_wherever_they_are_put(way, segment):
    region = segment(1100, offset=4095)  # neither the region nor a tensor begins at a page, or where an item is aligned
    region.put(np.array(DATA, np.int32), 1)
    region.put(np.array([5, 6, 7, 8], np.int32), 333)
    inputs = {"A": (*ROW, place(region.name, 16, 1)), "B": (*ROW, place(region.name, 16, 333))}
    code, _ = way.ask("pair", inputs, {"X": place(region.name, 16, 501), "Y": place(region.name, 499, 600)})
    assert code == "OK"
    assert region.get("INT32", [4], 501).tolist() == DATA
    assert region.get("INT32", [4], 600).tolist() == [5, 6, 7, 8]


def test_tensors_in_regions_and_in_the_request_mix(way, segment):
    region = segment(64)
    region.put(np.array(DATA, np.int32), 16)
    inputs = {"A": (*ROW, [9, 9, 9, 9]), "B": (*ROW, place(region.name, 16, 16))}
    code, answer = way.ask("pair", inputs, {"X": place(region.name, 16, 48), "Y": {}})
    assert code == "OK"
    assert region.get("INT32", [4], 48).tolist() == [9, 9, 9, 9]
    if way.name == "http":
        assert answer["outputs"] == [
            {"name": "X", "datatype": "INT32", "shape": [4]},
            {"name": "Y", "datatype": "INT32", "shape": [4], "data": DATA},
        ]
    else:
        assert [*answer.raw_output_contents] == [b"", np.array(DATA, np.int32).tobytes()]
        assert all(not output.parameters for output in answer.outputs)


def test_binary_outputs_stand_beside_outputs_in_regions(server, segment):
    client = httpclient.InferenceServerClient(f"127.0.0.1:{server.ports['http']}")
    region = segment(64)
    tensors = [httpclient.InferInput(name, [4], "INT32").set_data_from_numpy(np.array(DATA, np.int32)) for name in "AB"]
    outputs = [httpclient.InferRequestedOutput("X"), httpclient.InferRequestedOutput("Y", binary_data=True)]
    outputs[0].set_shared_memory(region.name, 16)
    found = client.infer("pair", tensors, outputs=outputs)
    assert found.as_numpy("Y").tolist() == DATA
    assert found.get_output("X") == {"name": "X", "datatype": "INT32", "shape": [4]}
    assert region.get("INT32", [4]).tolist() == DATA
    client.close()


WRONG = [
    (place("other", 16), "NOT_FOUND", "Unable to find shared memory region: 'other'"),
    (place("", 16), "NOT_FOUND", "Unable to find shared memory region: ''"),
    (place("r", 16, 64), "INVALID_ARGUMENT", "Invalid offset for shared memory region: 'r'"),
    (place("r", 16, -16), "INVALID_ARGUMENT", "Invalid offset for shared memory region: 'r'"),
    (place("r", 16, 49), "INVALID_ARGUMENT", "Invalid offset + byte size for shared memory region: 'r'"),
    (place("r", 65), "INVALID_ARGUMENT", "Invalid offset + byte size for shared memory region: 'r'"),
    (place("r", -16), "INVALID_ARGUMENT", "Invalid offset + byte size for shared memory region: 'r'"),
    (place("r", 2**63 - 1, 32), "INVALID_ARGUMENT", "Invalid offset + byte size for shared memory region: 'r'"),
    (place("r"), "INVALID_ARGUMENT", "'shared_memory_byte_size' must be specified along with 'shared_memory_region'"),
    (place(7, 16), "INVALID_ARGUMENT", "'shared_memory_region' parameter for tensor '{}', expected string_param"),
    (place("r", "16"), "INVALID_ARGUMENT", "'shared_memory_byte_size' parameter for tensor '{}', expected int64_param"),
    (place("r", True), "INVALID_ARGUMENT", "'shared_memory_byte_size' parameter for tensor '{}', expected int64_param"),
    (place("r", 16, 0.5), "INVALID_ARGUMENT", "'shared_memory_offset' parameter for tensor '{}', expected int64_param"),
]


def named(parameters, name):
    return {key: name if value == "r" else value for key, value in parameters.items()}


@pytest.mark.parametrize(("parameters", "code", "error"), WRONG)
def test_wrong_places_are_refused_by_name(way, segment, parameters, code, error):
    region = segment(64)
    wrong = named(parameters, region.name)
    ours = error.replace("'r'", f"'{region.name}'")
    whole = {"A": (*ROW, place(region.name, 16)), "B": (*ROW, DATA)}
    for inputs, outputs, tensor in [
        (whole | {"A": (*ROW, wrong)}, {}, "A"),
        (whole, {"X": place(region.name, 16, 16), "Y": wrong}, "Y"),
    ]:
        got, said = way.ask("pair", inputs, outputs)
        assert (got, ours.format(tensor) in said) == (code, True), said
    way.client.unregister_system_shared_memory(region.name)  # nothing has it: it goes at once
    assert way.names() == []


@pytest.mark.parametrize("nbytes", [0, 12, 20])
def test_a_size_that_is_not_the_tensors_is_refused(way, segment, nbytes):
    region = segment(64)
    code, said = way.ask("pair", {"A": (*ROW, place(region.name, nbytes)), "B": (*ROW, DATA)})
    assert code == "INVALID_ARGUMENT"
    assert f"input byte size mismatch for input 'A' for model 'pair'. Expected 16, got {nbytes}" in said


def test_numbers_beyond_63_bits_overflow_nothing(server, segment):
    raw, region = RawHttp(server), segment(64)
    for parameters, error in [
        (place(region.name, 16, 2**64 - 32), "Invalid offset for shared memory region"),
        (place(region.name, 2**64 - 32, 32), "Integer overflow detected: byte_size"),
        (place(region.name, 2**64 - 1, 0), "Invalid offset + byte size"),
    ]:
        document = {"inputs": [{"name": "A", "datatype": "INT32", "shape": [4], "parameters": parameters}]}
        answer = raw.infer("rows", document)
        assert (answer.status_code, error in answer.json()["error"]) == (400, True), answer.json()
    raw.close()


def test_one_source_for_each_tensor(server, segment):
    raw, messages, region = RawHttp(server), RawGrpc(server), segment(64)
    both = {"name": "A", "datatype": "INT32", "shape": [4], "data": DATA, "parameters": place(region.name, 16)}
    answer = raw.infer("pair", {"inputs": [both, {**both, "name": "B"}]})
    assert answer.status_code == 400
    assert "must set only one of" in answer.json()["error"]
    message = Grpc.message("pair", {"A": (*ROW, place(region.name, 16)), "B": (*ROW, DATA)})
    message.inputs[0].contents.int_contents.extend(DATA)
    with pytest.raises(grpc.RpcError, match="unexpected 'content' provided when using shared memory"):
        messages.infer(message)
    for where in ("inputs", "outputs"):
        message = Grpc.message("pair", {"A": (*ROW, DATA), "B": (*ROW, DATA)}, {"X": {}})
        fill(getattr(message, where)[0].parameters, {"shared_memory_offset": 3})
        with pytest.raises(grpc.RpcError, match="can not be specified without 'shared_memory_region'"):
            messages.infer(message)
    raw.close()
    messages.close()


def test_classes_and_binary_data_have_no_region(way, segment):
    region, whole = segment(64), {"A": (*ROW, DATA), "B": (*ROW, DATA)}
    code, said = way.ask("pair", whole, {"X": {**place(region.name, 16), "classification": 2}})
    assert (code, "can't set both 'shared_memory_region' and 'classification'" in said) == ("INVALID_ARGUMENT", True)
    if way.name == "http":
        code, said = way.ask("pair", whole, {"X": {**place(region.name, 16), "binary_data": True}})
        assert (code, "both 'shared_memory_region' and 'binary_data'" in said) == ("INVALID_ARGUMENT", True)


def test_an_unknown_model_is_what_is_told(way):
    code, said = way.ask("nobody", {"A": (*ROW, place("nowhere", 16))})
    assert (code, "nobody" in said) == ("NOT_FOUND", True)


def test_an_output_that_is_larger_than_its_place_fails_its_request_alone(way, segment):
    region = segment(64)
    region.put(np.full(16, 7, np.int32))
    with ThreadPoolExecutor(2) as pool:
        row = {"A": ("INT32", [1, 4], DATA)}
        small = pool.submit(way.ask, "rows", row, {"X": place(region.name, 15)})
        other = WAYS[way.name](Ports(way))
        fits = pool.submit(other.ask, "rows", row, {"X": place(region.name, 16, 48)})
        code, said = small.result(PATIENCE_S)
        assert (code, "output 'X' (15 bytes) should be at least 16 bytes" in said) == ("INVALID_ARGUMENT", True)
        assert fits.result(PATIENCE_S)[0] == "OK"
        other.close()
    assert region.get("INT32", [16]).tolist() == [7] * 12 + DATA


class Ports:
    """As a server, for a second connection of the same way."""

    def __init__(self, way):
        port = way.raw.port if way.name == "http" else None
        self.ports = {"http": port, "grpc": way.raw.port if way.name == "grpc" else None}


def test_texts(way, segment):
    region = segment(100)
    texts = np.array([b"", "é".encode(), b"\0\xff"], np.object_)
    region.put(texts)
    code, _ = way.ask("texts", {"A": ("BYTES", [3], place(region.name, 16))}, {"X": place(region.name, 40, 50)})
    assert code == "OK"
    assert region.get("BYTES", [3], 50).tolist() == texts.tolist()


@pytest.mark.parametrize(
    ("data", "shape", "error"),
    [
        (b"\5\0\0\0abcd", [1], "incomplete string data"),
        (b"\1\0\0\0a\0\0\0", [1], "incomplete string length indicator"),
        (b"\1\0\0\0a\0\0\0\0", [1], "string elements"),
        (b"\1\0\0\0a\0\0\0\0", [3], "expected 3 string elements"),
    ],
)
def test_texts_with_wrong_lengths(way, segment, data, shape, error):
    region = segment(100)
    region.memory[: len(data)] = data
    code, said = way.ask("texts", {"A": ("BYTES", shape, place(region.name, len(data)))})
    assert (code, error in said, "'A'" in said) == ("INVALID_ARGUMENT", True, True), said


@pytest.mark.parametrize(
    ("model", "datatype"),
    [("texts", "BYTES"), ("plus_inline", "INT32"), ("plus_isolated", "INT32"), ("twice", "INT32")],
)
def test_a_region_that_is_larger_than_the_memory_is_refused_and_not_kept(way, model, datatype):
    nbytes = 1 << 43  # of a file with nothing in it
    name = f"charonia_test_{os.getpid()}_hole"
    with open(f"/dev/shm/{name}", "wb") as made:
        made.truncate(nbytes)
    try:
        way.client.register_system_shared_memory(name, name, nbytes)
        code, said = way.ask(model, {"A": (datatype, [nbytes // 4], place(name, nbytes))})
        assert (code, f"'A' has {nbytes} bytes in shared memory" in said) == ("INVALID_ARGUMENT", True), said
        way.client.unregister_system_shared_memory(name)
        assert way.names() == []
    finally:
        os.unlink(f"/dev/shm/{name}")


@pytest.mark.parametrize("elements", [3, 2_000_000])
@pytest.mark.parametrize("form", FORMS)
def test_python_models(way, segment, form, elements):
    given = np.arange(elements, dtype=np.int32)
    region = segment(2 * given.nbytes)
    region.put(given)
    inputs = {"A": ("INT32", [elements], place(region.name, given.nbytes))}
    for _ in range(3):
        code, _ = way.ask(f"plus_{form}", inputs, {"X": place(region.name, given.nbytes, given.nbytes)})
        assert code == "OK"
        np.testing.assert_array_equal(region.get("INT32", [elements], given.nbytes), given + 1)


def test_ensembles(way, segment):
    region = segment(64)
    region.put(np.array(DATA, np.int32))
    code, _ = way.ask("twice", {"A": (*ROW, place(region.name, 16))}, {"X": place(region.name, 16)})
    assert code == "OK"
    assert region.get("INT32", [4]).tolist() == [3, 4, 5, 6]


@pytest.mark.parametrize("model", ["rows", "plus_isolated", "plus_inline", "twice"])
def test_a_segment_that_its_owner_cuts_short_fails_requests_and_nothing_else(way, segment, model):
    whole, cut = segment(1 << 20), segment(1 << 20)
    batch = [1] if model == "rows" else []
    count, nbytes = 1 << 17, 1 << 19
    whole.put(np.arange(count, dtype=np.int32))
    os.truncate(cut.path, 4096)
    inputs = {
        name: ("INT32", [*batch, count], place(region.name, nbytes)) for name, region in [("w", whole), ("c", cut)]
    }
    for _ in range(3):
        code, said = way.ask(model, {"A": inputs["c"]}, {"X": place(whole.name, nbytes, nbytes)})
        assert (code, "is shorter than it was" in said) == ("INVALID_ARGUMENT", True), said
        code, said = way.ask(model, {"A": inputs["w"]}, {"X": place(cut.name, nbytes, nbytes)})
        assert (code, "is shorter than it was" in said) == ("INVALID_ARGUMENT", True), said
        assert way.ask(model, {"A": inputs["w"]}, {"X": place(whole.name, nbytes, nbytes)})[0] == "OK"
    assert os.stat(cut.path).st_size == 4096, "an output made the segment longer"


def test_a_cut_segment_does_not_fail_the_batch_that_it_is_in(way, segment):
    whole, cut = segment(64), segment(64)
    whole.put(np.array(DATA, np.int32))
    os.truncate(cut.path, 0)
    others = [WAYS[way.name](Ports(way)) for _ in range(3)]
    with ThreadPoolExecutor(4) as pool:
        futures = [
            pool.submit(other.ask, "rows", {"A": ("INT32", [1, 4], place(region.name, 16))})
            for other, region in zip([way, *others], [whole, cut, whole, cut], strict=True)
        ]
        codes = [future.result(PATIENCE_S)[0] for future in futures]
    assert codes == ["OK", "INVALID_ARGUMENT"] * 2
    for other in others:
        other.close()


@pytest.mark.parametrize("form", FORMS)
def test_each_response_of_a_stream_overwrites_the_one_before(server, segment, form):
    region, came, seen = segment(64), queue.SimpleQueue(), []
    region.put(np.array([5], np.int32), 60)
    tensor, output = grpcclient.InferInput("A", [1], "INT32"), grpcclient.InferRequestedOutput("X")
    tensor.set_shared_memory(region.name, 4, 60)
    output.set_shared_memory(region.name, 4, 8)
    with grpcclient.InferenceServerClient(f"127.0.0.1:{server.ports['grpc']}") as client:
        client.start_stream(lambda result, error: came.put((result, error)))
        client.async_stream_infer(f"counting_{form}", [tensor], outputs=[output], enable_empty_final_response=True)
        while True:
            result, error = came.get(timeout=PATIENCE_S)
            assert error is None
            response = result.get_response()
            if response.parameters["triton_final_response"].bool_param:
                break
            seen.append([*response.raw_output_contents])
    assert seen == [[b""]] * 5
    assert region.get("INT32", [1], 8).tolist() == [4]


def test_a_region_in_use_is_unregistered_after_the_last_answer(gated, clients):
    served = gated("max_batch_size: 1 instance_group { count: 2 }", doors=(1, 2), allow_client_shm=True)
    way = Http(served.server)
    region = Segment(way.client, 64)
    region.put(np.array([1], np.float32))
    region.put(np.array([2], np.float32), 4)

    def ask(start):
        door = Http(served.server)  # of the thread that uses it
        found = door.ask(
            "m", {"IN": ("FP32", [1, 1], place(region.name, 4, start))}, {"OUT": place(region.name, 4, 32)}
        )
        door.close()
        return found

    first = clients.submit(ask, 0)
    served.gate.next_entered()
    way.client.unregister_system_shared_memory(region.name)
    assert way.names() == [region.name]
    with pytest.raises(InferenceServerException, match="already in manager"):
        way.client.register_system_shared_memory(region.name, f"/{region.name}", 64)
    second = clients.submit(ask, 4)  # while it is there, it is there for all
    served.gate.next_entered()
    served.gate.open(door=1)
    assert first.result(PATIENCE_S)[0] == "OK"
    assert way.names() == [region.name]
    served.gate.open(door=2)
    assert second.result(PATIENCE_S)[0] == "OK"
    assert way.names() == []  # before the client had the answer
    assert region.get("FP32", [1], 32).tolist() == [2]
    region.close()
    way.close()


def test_registering(way, file):
    key, _ = file
    register, names = way.client.register_system_shared_memory, way.names
    register("a", f"/{key}", 64)
    register("b", key, 1, 63)
    register("c", f"//{key}", 64)
    assert names() == ["a", "b", "c"]
    for args, error in [
        (("a", key, 8), "shared memory region 'a' already in manager"),
        (("d", key, 65), "failed to register shared memory region 'd': invalid args"),
        (("d", key, 64, 1), "failed to register shared memory region 'd': invalid args"),
        (("d", key, 0), "failed to register shared memory region 'd': invalid args"),
        (("d", key, 2**64 - 1, 2**64 - 1), "failed to register shared memory region 'd': invalid args"),
        (("d", "/charonia_test_nothing", 8), "Unable to open shared memory region: '/charonia_test_nothing'"),
        (("d", "/", 8), "cannot register shared memory region 'd' - invalid shm key '/'"),
        (("d", "", 8), "cannot register shared memory region 'd' - invalid shm key ''"),
        (("d", "..", 8), "invalid shm key '..'"),
        (("d", "/../etc/passwd", 8), "invalid shm key"),
        (("d", f"./{key}", 8), "invalid shm key"),
        (("d", "x" * 256, 8), "invalid shm key"),
        (("d", "a\0b", 8), "invalid shm key"),
        (("d", "/triton_python_backend_shm_region_1", 8), "reserved prefix 'triton_python_backend_shm_region_'"),
    ]:
        with pytest.raises(InferenceServerException) as refused:
            register(*args)
        assert error in refused.value.message(), args
        wrong = ("400", "StatusCode.INVALID_ARGUMENT", "StatusCode.ALREADY_EXISTS")
        assert refused.value.status() in (("500", "StatusCode.INTERNAL") if "Unable to open" in error else wrong)
    assert names() == ["a", "b", "c"]
    way.client.unregister_system_shared_memory("nobody")
    way.client.unregister_system_shared_memory("b")
    assert names() == ["a", "c"]
    with pytest.raises(InferenceServerException, match="Unable to find system shared memory region: 'b'"):
        way.client.get_system_shared_memory_status("b")
    way.client.unregister_system_shared_memory()
    assert names() == []


def test_a_link_out_of_the_folder_is_no_segment(way, tmp_path):
    secret = tmp_path / "secret"
    secret.write_bytes(b"x" * 64)
    name = f"charonia_test_{os.getpid()}_link"
    for target in (secret, tmp_path):
        os.symlink(target, f"/dev/shm/{name}")
        try:
            with pytest.raises(InferenceServerException, match="Unable to open shared memory region"):
                way.client.register_system_shared_memory("link", name, 8)
        finally:
            os.unlink(f"/dev/shm/{name}")


def test_what_is_no_segment_is_refused(way):
    name = f"charonia_test_{os.getpid()}_odd"
    for make, remove in ((os.mkfifo, os.unlink), (os.mkdir, os.rmdir)):
        make(f"/dev/shm/{name}")
        try:
            with pytest.raises(InferenceServerException, match="Unable to open shared memory region"):
                way.client.register_system_shared_memory("odd", name, 8)
        finally:
            remove(f"/dev/shm/{name}")


def test_the_owner_may_remove_the_name(way, segment):
    region = segment(64)
    region.put(np.array(DATA, np.int32))
    os.rename(region.path, region.path + "_moved")
    try:
        code, _ = way.ask(
            "pair", {"A": (*ROW, place(region.name, 16)), "B": (*ROW, DATA)}, {"X": place(region.name, 16, 16)}
        )
        assert code == "OK"
        assert region.get("INT32", [4], 16).tolist() == DATA
    finally:
        os.rename(region.path + "_moved", region.path)


def test_bodies_of_register_requests(server):
    raw = RawHttp(server).client
    for path, body, error in [
        ("system", {"byte_size": 1}, "no 'key' field"),
        ("system", {"key": "/k"}, "no 'byte_size' field"),
        ("system", {"key": "/k", "byte_size": -1}, "'byte_size'"),
        ("system", {"key": 7, "byte_size": 1}, "'key'"),
        ("system", {"key": "/k", "byte_size": 1, "offset": "0"}, "'offset'"),
        ("cuda", {}, "no 'raw_handle' field"),
        ("cuda", {"raw_handle": {}, "device_id": 0, "byte_size": 8}, "valid base64"),
        ("cuda", {"raw_handle": {"b64": "?"}, "device_id": 0, "byte_size": 8}, "valid base64"),
        ("cuda", {"raw_handle": {"b64": "AAAA"}, "device_id": 0, "byte_size": 8}, "cudaIpcMemHandle_t"),
        ("cuda", {"raw_handle": {"b64": "AAAA"}, "byte_size": 8}, "no 'device_id' field"),
    ]:
        answer = raw.post(f"/v2/{path}sharedmemory/region/r/register", content=json.dumps(body))
        assert (answer.status_code, error in answer.json()["error"]) == (400, True), (body, answer.json())
    answer = raw.post("/v2/systemsharedmemory/register", json={"key": "/k", "byte_size": 8})
    assert (answer.status_code, "'region name' is necessary" in answer.json()["error"]) == (400, True)
    raw.close()


def test_without_the_flag_only_the_state_is_told(tmp_path, file):
    write_config(tmp_path, "pair", 'backend: "identity"\n' + PAIR.format("TYPE_INT32", "[ 4 ]"))
    (tmp_path / "pair" / "1").mkdir()
    with Server(tmp_path, http_port=0, grpc_port=0) as running:
        for make in WAYS.values():
            way = make(running)
            assert way.names() == []
            for order in (
                lambda: way.client.register_system_shared_memory("r", file[0], 8),  # noqa: B023
                lambda: way.client.unregister_system_shared_memory(),  # noqa: B023
                lambda: way.client.register_cuda_shared_memory("r", b"AAAA", 0, 8),  # noqa: B023
                lambda: way.client.unregister_cuda_shared_memory("r"),  # noqa: B023
            ):
                with pytest.raises(InferenceServerException, match="Client shared memory is disabled") as refused:
                    order()
                assert refused.value.status() in ("501", "StatusCode.UNIMPLEMENTED")
            code, said = way.ask("pair", {"A": (*ROW, place("r", 16)), "B": (*ROW, DATA)})
            assert (code, "Client shared memory is disabled" in said) == ("NOT_FOUND", True)
            way.close()


def test_a_stopped_server_holds_nothing(tmp_path):
    def held(name):
        links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
        return [link for link in links if os.path.islink(link) and name in os.readlink(link)]

    (tmp_path / "models").mkdir()
    with Server(tmp_path / "models", http_port=0, allow_client_shm=True) as running:
        client = httpclient.InferenceServerClient(f"127.0.0.1:{running.ports['http']}")
        region = Segment(client, 64)
        region.memory.close()
        assert len(held(region.name)) == 1
        client.close()
    assert held(region.name) == []
    os.unlink(region.path)


@pytest.mark.parametrize("name", WAYS)
def test_answers_from_the_response_cache_go_into_regions_too(tmp_path, name):
    config = 'backend: "identity" response_cache { enable: true }\n' + PAIR.format("TYPE_INT32", "[ 4 ]")
    (write_config(tmp_path, "pair", config) / "1").mkdir()
    options = {"cache_config": {"local": {"size": "1048576"}}, "allow_client_shm": True}
    with Server(tmp_path, http_port=0, grpc_port=0, **options) as running:
        way = WAYS[name](running)
        region = Segment(way.client, 64)
        region.put(np.array(DATA, np.int32))
        inputs = {"A": (*ROW, place(region.name, 16)), "B": (*ROW, place(region.name, 16))}
        for offset in (16, 32):
            assert way.ask("pair", inputs, {"X": place(region.name, 16, offset)})[0] == "OK"
            assert region.get("INT32", [4], offset).tolist() == DATA
        region.put(np.array([9, 9, 9, 9], np.int32))  # another input: no hit
        assert way.ask("pair", inputs, {"X": place(region.name, 16, 48)})[0] == "OK"
        assert region.get("INT32", [4], 48).tolist() == [9, 9, 9, 9]
        assert running.model("pair").statistics().inference["cache_hit"].count == 1
        region.close()
        way.close()
