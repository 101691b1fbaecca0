"""What plain models can do, the same in both forms."""

import json
import threading

import ml_dtypes
import numpy as np
import pytest

from charonia.core.errors import Code
from charonia.core.tensor import Tensor
from charonia.testing.batch import make_batch

ECHO = """
class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("Y", pb_utils.get_input_tensor_by_name(r, "X").as_numpy())])
            for r in requests
        ]
"""

ADD_SUB = """
class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            a = pb_utils.get_input_tensor_by_name(request, "A").as_numpy()
            b = pb_utils.get_input_tensor_by_name(request, "B").as_numpy()
            responses.append(pb_utils.InferenceResponse(
                output_tensors=[pb_utils.Tensor("SUM", a + b), pb_utils.Tensor("DIFF", a - b)]))
        return responses
"""
ADD_SUB_IO = {
    "inputs": "A:TYPE_FP32:16 B:TYPE_FP32:16",
    "outputs": "SUM:TYPE_FP32:16 DIFF:TYPE_FP32:16",
    "max_batch_size": 64,
}

# What the API tells of a request, as JSON text in a STRING output.
TELL = """
class TritonPythonModel:
    def initialize(self, args):
        self.args = args

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([json.dumps(self.tell(r))], dtype=object))])
                for r in requests]

    def tell(self, request):
        %s
"""
TEXT = {"outputs": "Y:TYPE_STRING:1"}


def tell(serve, expression, request_options=None, **options):
    served = serve(TELL % expression, **{**TEXT, **options})
    batch = served.run({"X": np.zeros(1, np.float32)}, **(request_options or {}))
    return json.loads(batch.outputs()["Y"][0])


def test_a_batch_is_answered_request_by_request(serve):
    served = serve(ADD_SUB, **ADD_SUB_IO)
    rows = [{"A": np.full((1, 16), n, np.float32), "B": np.full((1, 16), 1, np.float32)} for n in range(32)]
    batch = served.run(*rows)
    for number in range(32):
        assert batch.outputs(number)["SUM"].tolist() == [[number + 1.0] * 16]
        assert batch.outputs(number)["DIFF"].tolist() == [[number - 1.0] * 16]
    assert batch.stamps == ["inputs", "outputs"]


def test_requests_of_different_shapes_share_a_batch(serve):
    served = serve(ECHO)
    arrays = [np.arange(n, dtype=np.float32) for n in (3, 0, 5000, 1)]
    batch = served.run(*[{"X": array} for array in arrays])
    for number, array in enumerate(arrays):
        np.testing.assert_array_equal(batch.outputs(number)["Y"], array)


@pytest.mark.parametrize("count", [1, 3])
def test_large_tensors_travel_unharmed_again_and_again(serve, count):
    served = serve(ECHO.replace(".as_numpy()", ".as_numpy() * 2"))
    for round_ in range(6):
        arrays = [np.arange(300_000 + n, dtype=np.float32) + round_ for n in range(count)]
        batch = served.run(*[{"X": array} for array in arrays])
        for number, array in enumerate(arrays):
            np.testing.assert_array_equal(batch.outputs(number)["Y"], array * 2)


@pytest.mark.parametrize("size", [4, 20_000])
def test_echoed_inputs_come_back(serve, size):
    served = serve(ECHO)
    arrays = [np.arange(size, dtype=np.float32) + n for n in range(3)]
    for _ in range(3):
        batch = served.run(*[{"X": array} for array in arrays])
        for number, array in enumerate(arrays):
            np.testing.assert_array_equal(batch.outputs(number)["Y"], array)


DATATYPES = {
    "BOOL": np.array([True, False]),
    "UINT8": np.array([0, 255], np.uint8),
    "UINT16": np.array([0, 65535], np.uint16),
    "UINT32": np.array([0, 2**32 - 1], np.uint32),
    "UINT64": np.array([0, 2**64 - 1], np.uint64),
    "INT8": np.array([-128, 127], np.int8),
    "INT16": np.array([-(2**15), 2**15 - 1], np.int16),
    "INT32": np.array([-(2**31), 2**31 - 1], np.int32),
    "INT64": np.array([-(2**63), 2**63 - 1], np.int64),
    "FP16": np.array([1.5, -np.inf], np.float16),
    "FP32": np.array([1e-45, np.nan], np.float32),
    "FP64": np.array([np.inf, -0.0], np.float64),
    "BF16": np.array([1.5, -2], ml_dtypes.bfloat16),
    "STRING": np.array([b"", b"a\0b\0", "ä€".encode(), b"\xff"], np.object_),
}


@pytest.mark.parametrize("name", DATATYPES)
def test_every_datatype(serve, name):
    served = serve(ECHO, inputs=f"X:TYPE_{name}:-1", outputs=f"Y:TYPE_{name}:-1")
    array = DATATYPES[name]
    result = served.call(X=array)["Y"]
    assert result.dtype == array.dtype
    assert result.tobytes() == array.tobytes() if name != "STRING" else result.tolist() == array.tolist()


@pytest.mark.parametrize("shape", [(), (0,), (0, 0), (1, 0), (0, 0, 2), (1, 0, 2), (2, 3, 4)])
def test_shapes_with_zeros_and_none(serve, shape):
    served = serve(ECHO, inputs="X:TYPE_FP32:-1", outputs="")
    array = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    result = served.run({"X": array}, {"X": array}).outputs(1)["Y"]
    assert result.shape == shape
    np.testing.assert_array_equal(result, array)


def test_many_strings(serve):
    served = serve(ECHO, inputs="X:TYPE_STRING:-1", outputs="Y:TYPE_STRING:-1")
    words = np.array([b"x" * (n % 400) + str(n).encode() for n in range(3000)], np.object_)
    assert served.call(X=words)["Y"].tolist() == words.tolist()


def test_strings_may_be_text_or_fixed_width_and_are_encoded_anew_when_changed(serve):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            x = requests[0].inputs()[0].as_numpy()
            x[0] = "ä"
            tensors = [
                pb_utils.Tensor("CHANGED", x),
                pb_utils.Tensor("TEXT", np.array(["ab", "c"])),
                pb_utils.Tensor("FIXED", np.array([b"ab", b"c"])),
                pb_utils.Tensor("MIXED", np.array([1, bytearray(b"z")], dtype=object)),
            ]
            return [pb_utils.InferenceResponse(tensors)]
    """
    outputs = " ".join(f"{name}:TYPE_STRING:2" for name in ("CHANGED", "TEXT", "FIXED", "MIXED"))
    found = serve(code, inputs="X:TYPE_STRING:2", outputs=outputs).call(X=np.array([b"old", b"kept"], np.object_))
    assert found["CHANGED"].tolist() == ["ä".encode(), b"kept"]
    assert found["TEXT"].tolist() == [b"ab", b"c"]
    assert found["FIXED"].tolist() == [b"ab", b"c"]
    assert found["MIXED"].tolist() == [b"1", b"z"]


@pytest.mark.parametrize("size", [4, 100_000])
def test_inputs_may_be_changed_in_place_and_the_callers_array_stays(serve, size):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            x = requests[0].inputs()[0].as_numpy()
            x += 1
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", x)])]
    """
    array = np.zeros(size, np.float32)
    assert serve(code).call(X=array)["Y"].tolist() == [1.0] * size
    assert not array.any()


@pytest.mark.parametrize("size", [4, 100_000])
def test_inputs_that_the_model_keeps_are_not_overwritten(serve, size):
    code = """
    class TritonPythonModel:
        def initialize(self, args):
            self.kept = []
        def execute(self, requests):
            self.kept.append(requests[0].inputs()[0].as_numpy())
            total = sum(a[0] for a in self.kept)
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([total], np.float32))])]
    """
    served = serve(code)
    totals = [float(served.call(X=np.full(size, n, np.float32))["Y"][0]) for n in (1, 2, 4, 8)]
    assert totals == [1, 3, 7, 15]


def test_an_output_array_that_is_used_again_does_not_change_earlier_answers(serve):
    code = """
    class TritonPythonModel:
        def initialize(self, args):
            self.buffer = np.zeros(50000, np.float32)
        def execute(self, requests):
            self.buffer += 1
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", self.buffer)])]
    """
    served = serve(code)
    first = served.call(X=np.zeros(1, np.float32))["Y"]
    second = served.call(X=np.zeros(1, np.float32))["Y"]
    assert (first[0], second[0]) == (1, 2)


def test_arrays_that_are_not_contiguous_or_in_foreign_byte_order(serve):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            x = requests[0].inputs()[0].as_numpy()
            return [pb_utils.InferenceResponse([
                pb_utils.Tensor("T", x.T), pb_utils.Tensor("S", x[:, ::2]), pb_utils.Tensor("B", x.astype(">f4"))])]
    """
    outputs = "T:TYPE_FP32:-1,-1 S:TYPE_FP32:-1,-1 B:TYPE_FP32:-1,-1"
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    found = serve(code, inputs="X:TYPE_FP32:-1,-1", outputs=outputs).call(X=array)
    np.testing.assert_array_equal(found["T"], array.T)
    np.testing.assert_array_equal(found["S"], array[:, ::2])
    np.testing.assert_array_equal(found["B"], array)


def test_args_of_initialize(serve, workshop):
    args = tell(serve, "return self.args", name="mine", version=3, max_batch_size=0)
    config = json.loads(args.pop("model_config"))
    assert config["name"] == "mine"
    assert config["input"][0]["data_type"] == "TYPE_FP32"
    assert config["output"][0]["dims"] == [1]
    assert args == {
        "model_instance_kind": "CPU",
        "model_instance_name": "mine_0",
        "model_instance_device_id": "0",
        "model_repository": str(workshop.folder / "mine"),
        "model_version": "3",
        "model_name": "mine",
    }


def test_what_a_request_tells(serve):
    expression = (
        "r = request; return [r.request_id(), r.correlation_id(), r.flags(), r.timeout(), r.priority(),"
        " r.parameters(), r.requested_output_names(), r.is_cancelled(), r.trace().get_context()]"
    )
    options = {
        "id": "r-1",
        "correlation_id": 2**63 + 1,
        "flags": 1,
        "timeout_us": 5,
        "priority": 2,
        "parameters": {"s": "ä", "i": 2**40, "b": True, "f": 0.5},
        "requested_outputs": ("Y",),
    }
    told = tell(serve, expression, options)
    assert json.loads(told.pop(5)) == {"s": "ä", "i": 2**40, "b": True, "f": 0.5}
    assert told == ["r-1", 2**63 + 1, 1, 5, 2, ["Y"], False, None]


def test_what_a_request_tells_when_the_client_said_nothing(serve):
    expression = "r = request; return [r.request_id(), r.correlation_id(), r.parameters(), r.requested_output_names()]"
    assert tell(serve, expression) == ["", 0, "{}", ["Y"]]


def test_a_correlation_id_may_be_text(serve):
    assert tell(serve, "return request.correlation_id()", {"correlation_id": "abc"}) == "abc"


def test_get_model_dir_and_the_tensor_methods(serve, workshop):
    expression = (
        "t = request.inputs()[0]; return [pb_utils.get_model_dir(), t.name(), t.shape(), t.triton_dtype(), t.is_cpu()]"
    )
    assert tell(serve, expression) == [str(workshop.folder / "m" / "1"), "X", [1], 11, True]


def test_only_requested_outputs_are_sent(serve):
    served = serve(ADD_SUB, **ADD_SUB_IO)
    row = {"A": np.ones((1, 16), np.float32), "B": np.ones((1, 16), np.float32)}
    assert list(served.run(row, requested_outputs=("DIFF",)).outputs()) == ["DIFF"]


def test_optional_inputs_that_only_some_requests_have(serve):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            counts = [np.array([len(r.inputs())], np.int32) for r in requests]
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", count)]) for count in counts]
    """
    served = serve(code, inputs="X:TYPE_FP32:-1 Z:TYPE_FP32:-1", outputs="Y:TYPE_INT32:1")
    x = np.zeros(2, np.float32)
    batch = served.run({"X": x}, {"X": x, "Z": x}, {"X": x})
    assert [int(batch.outputs(n)["Y"][0]) for n in range(3)] == [1, 2, 1]


def test_response_parameters(serve):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            y = pb_utils.Tensor("Y", np.zeros(1, np.float32))
            first = pb_utils.InferenceResponse([y], parameters={"n": 1, "f": np.float64(0.5), "s": "x", "b": True})
            assert json.loads(first.parameters())["n"] == 1
            return [first, pb_utils.InferenceResponse([y])]
    """
    x = np.zeros(1, np.float32)
    batch = serve(code).run({"X": x}, {"X": x})
    assert dict(batch.answers[0].parameters) == {"n": 1, "f": 0.5, "s": "x", "b": True}
    assert dict(batch.answers[1].parameters) == {}


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("UNKNOWN", Code.UNKNOWN),
        ("INTERNAL", Code.INTERNAL),
        ("NOT_FOUND", Code.NOT_FOUND),
        ("INVALID_ARG", Code.INVALID_ARGUMENT),
        ("UNAVAILABLE", Code.UNAVAILABLE),
        ("UNSUPPORTED", Code.UNIMPLEMENTED),
        ("ALREADY_EXISTS", Code.ALREADY_EXISTS),
        ("CANCELLED", Code.CANCELLED),
    ],
)
def test_a_triton_error_fails_its_request_only(serve, code, status):
    model = f"""
    class TritonPythonModel:
        def execute(self, requests):
            error = pb_utils.TritonError("negative secs", pb_utils.TritonError.{code})
            assert error.message() == "negative secs" and error.code() == pb_utils.TritonError.{code}
            y = pb_utils.Tensor("Y", np.zeros(1, np.float32))
            return [pb_utils.InferenceResponse([y]), pb_utils.InferenceResponse(output_tensors=[], error=error)]
    """
    x = np.zeros(1, np.float32)
    batch = serve(model).run({"X": x}, {"X": x})
    assert batch.outputs(0)["Y"].tolist() == [0]
    assert (batch.error(1).code, str(batch.error(1))) == (status, "negative secs")


def test_async_execute_awaits_several_things_at_once(serve):
    code = """
    import asyncio
    class TritonPythonModel:
        async def execute(self, requests):
            gate = asyncio.Event()
            async def one(index, request):
                if index == len(requests) - 1:
                    gate.set()   # the last one lets all go on: they wait together, not one after another
                await gate.wait()
                return pb_utils.InferenceResponse([pb_utils.Tensor("Y", request.inputs()[0].as_numpy() + index)])
            return await asyncio.gather(*[one(i, r) for i, r in enumerate(requests)])
    """
    served = serve(code)
    for _ in range(2):
        batch = served.run(*[{"X": np.zeros(1, np.float32)}] * 3)
        assert [float(batch.outputs(n)["Y"][0]) for n in range(3)] == [0, 1, 2]


def test_tasks_of_an_async_model_go_on_between_batches(serve):
    code = """
    import asyncio, threading
    class TritonPythonModel:
        def initialize(self, args):
            self.done = threading.Event()
            self.started = False
        async def work(self):
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            self.done.set()
        async def execute(self, requests):
            if not self.started:
                self.started = True
                self.task = asyncio.get_running_loop().create_task(self.work())
                done = False
            else:
                done = await asyncio.get_running_loop().run_in_executor(None, self.done.wait, 10)
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([done], np.float32))])]
    """
    served = serve(code)
    assert [float(served.call(X=np.zeros(1, np.float32))["Y"][0]) for _ in range(2)] == [0, 1]


def test_is_cancelled_is_seen_while_the_model_works(serve, workshop):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            pb_utils.Logger.log_info("begun")
            while not requests[1].is_cancelled():
                pass
            flags = [r.is_cancelled() for r in requests]
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([f], np.float32))]) for f in flags]
    """
    served = serve(code)
    batch = make_batch(*[{"X": np.zeros(1, np.float32)}] * 3)
    thread = threading.Thread(target=batch.run, args=(served.instance,))
    thread.start()
    workshop.log.wait_for("begun")
    batch.requests[1].cancel()
    thread.join(20)
    assert not thread.is_alive()
    assert [float(batch.outputs(n)["Y"][0]) for n in range(3)] == [0, 1, 0]


def test_the_log_gets_messages_with_their_place(serve, workshop):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            logger = pb_utils.Logger
            logger.log_info("one"); logger.log_warn("two"); logger.log_error("three"); logger.log_verbose("four")
            logger.log("five", logger.WARNING); logger.log("six")
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.zeros(1, np.float32))])]
    """
    serve(code).call(X=np.zeros(1, np.float32))
    workshop.log.wait_for("six")
    assert workshop.log.records == [
        ("INFO", "one", "model.py"),
        ("WARNING", "two", "model.py"),
        ("ERROR", "three", "model.py"),
        ("VERBOSE", "four", "model.py"),
        ("WARNING", "five", "model.py"),
        ("INFO", "six", "model.py"),
    ]


def test_a_sender_may_send_the_final_response_of_a_plain_model(serve):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            for request in requests:
                response = pb_utils.InferenceResponse([pb_utils.Tensor("Y", request.inputs()[0].as_numpy())])
                request.get_response_sender().send(response, pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
            return None
    """
    assert serve(code).call(X=np.ones(2, np.float32))["Y"].tolist() == [1, 1]


def test_finalize_runs_at_the_end(serve, workshop):
    code = """
    class TritonPythonModel:
        def execute(self, requests): ...
        def finalize(self):
            pb_utils.Logger.log_info("cleaned up")
    """
    serve(code).unload()
    workshop.log.wait_for("cleaned up")


def test_a_model_needs_execute_only(serve):
    assert serve(ECHO).call(X=np.ones(1, np.float32))["Y"].tolist() == [1]


def test_helpers_of_the_api(serve):
    expression = (
        "c = json.loads(self.args['model_config']); return ["
        "pb_utils.get_input_config_by_name(c, 'X')['name'], pb_utils.get_output_config_by_name(c, 'none'),"
        "pb_utils.using_decoupled_model_transaction_policy(c),"
        "pb_utils.triton_string_to_numpy('TYPE_FP16') is np.float16,"
        "pb_utils.numpy_to_triton_type(np.int32), pb_utils.triton_to_numpy_type(13) is np.object_,"
        "pb_utils.deserialize_bytes_tensor(pb_utils.serialize_byte_tensor(np.array([b'a', 'b'], object))).tolist()"
        " == [b'a', b'b'],"
        "pb_utils.get_output_tensor_by_name(pb_utils.InferenceResponse([request.inputs()[0]]), 'X').name()]"
    )
    assert tell(serve, expression) == ["X", None, False, True, 8, True, True, "X"]


def test_an_untouched_bytes_input_can_be_handed_on_as_a_tensor(serve):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            return [pb_utils.InferenceResponse(r.inputs()) for r in requests]
    """
    served = serve(code, inputs="X:TYPE_STRING:-1", outputs="X:TYPE_STRING:-1")
    words = np.array([b"a" * 9000, b"", b"c" * 9000], np.object_)
    assert served.call(X=words)["X"].tolist() == words.tolist()


def test_bytes_inputs_keep_their_shape(serve):
    served = serve(ECHO, inputs="X:TYPE_STRING:-1,-1", outputs="Y:TYPE_STRING:-1,-1")
    words = np.array([[b"a", b"b"], [b"c", b"d"]], np.object_)
    assert served.call(X=words)["Y"].tolist() == words.tolist()


def test_the_datatype_of_an_input_may_differ_between_requests(serve):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            names = [np.array([str(r.inputs()[0].as_numpy().dtype)], object) for r in requests]
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", name)]) for name in names]
    """
    served = serve(code, **TEXT)
    batch = served.run({"X": np.zeros(1, np.float32)}, {"X": np.zeros(1, np.int8)})
    assert [batch.outputs(n)["Y"][0] for n in range(2)] == [b"float32", b"int8"]


def test_bf16_needs_no_numpy_type_when_it_is_only_handed_on(serve):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            return [pb_utils.InferenceResponse(r.inputs()) for r in requests]
    """
    served = serve(code, inputs="X:TYPE_BF16:-1", outputs="X:TYPE_BF16:-1")
    array = np.array([1, 2], ml_dtypes.bfloat16)
    batch = served.run({"X": Tensor.from_numpy("X", array)})
    assert batch.outputs()["X"].tolist() == [1, 2]
