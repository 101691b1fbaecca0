"""What goes wrong in a model's code: each stage and each kind, in both forms."""

import numpy as np
import pytest

from charonia.backends.base import InstanceSpec
from charonia.core.errors import CharoniaError, Code, InvalidArgumentError, NotFoundError

SPEC = InstanceSpec("m_0", "KIND_CPU", "cpu", 1)
X = {"X": np.zeros(1, np.float32)}

GOOD = """
class TritonPythonModel:
    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", r.inputs()[0].as_numpy())]) for r in requests]
"""


def load_error(serve, code, **options):
    with pytest.raises(CharoniaError) as caught:
        serve(code, **options)
    return str(caught.value)


def execute_error(serve, body, rows=1, **options):
    lines = "\n".join("            " + line for line in body.splitlines())
    code = f"""
    class TritonPythonModel:
        def execute(self, requests):
{lines}
"""
    served = serve(code, **options)
    batch = served.run(*[X] * rows)
    return batch if rows > 1 else str(batch.error())


@pytest.mark.parametrize(
    ("code", "texts"),
    [
        ("class TritonPythonModel\n    pass\n", ["SyntaxError", "model.py:5"]),
        ("import no_such_module\n", ["No module named 'no_such_module'", "model.py(5)"]),
        ("raise ValueError('at import')\n", ["ValueError: at import", "model.py(5)"]),
        ("sys.exit(3)\n", ["sys.exit(3)", "model.py(5)"]),
        ("class Model: ...\n", ["model.py", "no class named TritonPythonModel"]),
        ("class TritonPythonModel: ...\n", ["model.py", "no method named execute"]),
    ],
)
def test_import_fails_with_the_reason_and_the_place(serve, code, texts):
    error = load_error(serve, "\n" + code)
    assert all(text in error for text in [*texts, "model 'm' version 1 instance 'm_0'"]), error


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("raise RuntimeError('no weights')", "RuntimeError: no weights"),
        ("sys.exit('bye')", "sys.exit('bye')"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise pb_utils.TritonModelException('not today')", "TritonModelException: not today"),
    ],
)
def test_initialize_fails_with_the_reason(serve, body, text):
    code = f"""
    class TritonPythonModel:
        def initialize(self, args):
            {body}
        def execute(self, requests): ...
    """
    error = load_error(serve, code)
    assert "initialize failed" in error
    assert text in error
    assert "model.py(7): initialize" in error


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("raise Exception('kaboom')", "Exception: kaboom"),
        ("sys.exit(1)", "the model called sys.exit(1)"),
        ("return pb_utils.Tensor('', np.zeros(1))", "a Tensor needs a name"),
        ("return pb_utils.Tensor('Y', np.zeros(1, complex))", "complex128"),
        ("return 5", "execute must return a list of InferenceResponse, got int"),
        ("return []", "0 InferenceResponse objects for 1 InferenceRequest objects"),
        ("return [None]", "no response (None)"),
        ("return None", "execute returned None in place of a list with an InferenceResponse for the request"),
        ("return [7]", "int, not an InferenceResponse"),
        (
            "return [type('Future', (), {'__await__': None})()]",
            "Future, not an InferenceResponse, without awaiting it,",
        ),
    ],
)
def test_execute_fails_its_batch_with_the_phrase_that_clients_know(serve, body, text):
    error = execute_error(serve, body)
    assert error.startswith("Failed to process the request(s) for model 'm_0', message: ")
    assert text in error


def test_the_last_frames_say_where(serve):
    code = """
    def inner():
        return 1 // 0
    class TritonPythonModel:
        def execute(self, requests):
            return inner()
    """
    error = str(serve(code).run(X).error())
    assert "ZeroDivisionError" in error
    assert error.index("model.py(6): inner") < error.index("model.py(9): execute")
    assert "child/" not in error


def test_a_model_serves_on_after_an_exception(serve):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            if requests[0].request_id() == "bad":
                raise ValueError("bad")
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", r.inputs()[0].as_numpy())]) for r in requests]
    """
    served = serve(code)
    assert served.run(X, X, id="bad").error(1).code == Code.INTERNAL
    assert served.call(**X)["Y"].tolist() == [0]


@pytest.mark.parametrize(
    ("doing", "text"),
    [
        ("sys.exit(3)", "the model called sys.exit(3)"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("raise asyncio.CancelledError", "CancelledError"),
        ("asyncio.get_running_loop().stop(); await asyncio.sleep(0); raise OSError('awake')", "OSError: awake"),
    ],
)
@pytest.mark.parametrize("decoupled", [False, True])
def test_nothing_that_a_coroutine_does_ends_the_event_loop(serve, doing, text, decoupled):
    code = f"""
    import asyncio
    class TritonPythonModel:
        async def execute(self, requests):
            {doing}
    """
    served = serve(code, decoupled=decoupled)
    for _ in range(2):
        batch = served.run(X)
        assert text in str(batch.error())


def test_finalize_that_fails_is_logged(serve, workshop):
    code = """
    class TritonPythonModel:
        def execute(self, requests): ...
        def finalize(self):
            sys.exit(2)
    """
    serve(code).unload()
    message = workshop.log.wait_for("finalize failed")
    assert "sys.exit(2)" in message


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        ("pb_utils.Tensor('OTHER', x)", "output 'OTHER', which its configuration does not have; it has Y, Z"),
        ("pb_utils.Tensor('Y', x.astype(np.float64))", "output 'Y' with datatype FP64, its configuration says UINT8"),
        ("pb_utils.Tensor('Y', np.array([[300]]))", "output 'Y' with datatype INT64, its configuration says UINT8"),
        ("pb_utils.Tensor('Y', x.astype(np.uint8)[0])", "output 'Y' with shape [2], its configuration says [-1, 2]"),
        ("pb_utils.Tensor('Y', np.array(1, np.uint8))", "shape [], its configuration says [-1, 2]"),
    ],
)
def test_a_wrong_output_fails_its_request_only(serve, tensor, text):
    code = f"""
    class TritonPythonModel:
        def execute(self, requests):
            x = requests[0].inputs()[0].as_numpy()
            right = pb_utils.Tensor("Y", np.zeros((1, 2), np.uint8))
            return [pb_utils.InferenceResponse([t]) for t in (right, {tensor}, right)]
    """
    served = serve(code, outputs="Y:TYPE_UINT8:2 Z:TYPE_FP32:1", max_batch_size=4)
    batch = served.run(*[{"X": np.zeros((1, 2), np.float32)}] * 3)
    assert text in str(batch.error(1))
    assert "model 'm'" in str(batch.error(1))
    assert batch.outputs(0)["Y"].tolist() == batch.outputs(2)["Y"].tolist() == [[0, 0]]


@pytest.mark.parametrize("decoupled", [False, True])
def test_a_misspelt_output_is_told_to_a_client_that_asks_for_the_right_one(serve, decoupled):
    """It is not taken for one that nobody wants."""
    body = "s = r.get_response_sender(); s.send(a, flags=1)" if decoupled else "answers.append(a)"
    code = f"""
    class TritonPythonModel:
        def execute(self, requests):
            answers = []
            for r in requests:
                tensors = [pb_utils.Tensor(name, np.zeros(1, np.float32)) for name in ("OTHER", "Z")]
                a = pb_utils.InferenceResponse(tensors)
                {body}
            return answers or None
    """
    served = serve(code, outputs="Y:TYPE_FP32:1 Z:TYPE_FP32:1", decoupled=decoupled)
    for wanted in (("Y",), ("Z",), ()):
        batch = served.run(X, requested_outputs=wanted)
        assert "output 'OTHER', which its configuration does not have; it has Y, Z" in str(batch.error())


def test_a_plain_model_that_answers_and_wants_another_turn_is_told(serve, workshop):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            for request in requests:
                request.get_response_sender().send(
                    pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.ones(1, np.float32))]))
                request.set_release_flags(pb_utils.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE)
            return [None] * len(requests)
    """
    assert serve(code).call(**X)["Y"].tolist() == [1]
    message = workshop.log.wait_for("asked for a request to be rescheduled that its response sender has answered")
    assert "model_transaction_policy { decoupled: true }" in message


def test_an_output_given_twice(serve):
    batch = execute_error(
        serve,
        "y = pb_utils.Tensor('Y', np.zeros(1, np.float32))\n"
        "return [pb_utils.InferenceResponse([y]), pb_utils.InferenceResponse([y, y])]",
        rows=2,
    )
    assert "more than once" in str(batch.error(1))
    assert batch.outputs(0)


def test_a_model_without_configured_outputs_may_return_any(serve):
    assert serve(GOOD, outputs="").call(**X)["Y"].tolist() == [0]


def test_a_print_flood_does_not_stop_the_model(serve, capfd):
    code = """
    class TritonPythonModel:
        def execute(self, requests):
            for n in range(2000):
                print("flood" * 40, n)
                print("flood" * 40, n, file=sys.stderr)
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", r.inputs()[0].as_numpy())]) for r in requests]
    """
    assert serve(code).call(**X)["Y"].tolist() == [0]
    output = capfd.readouterr()
    assert "flood 1999" in output.out
    assert "flood 1999" in output.err


def test_no_model_file(workshop, form):
    workshop.write(GOOD)
    (workshop.folder / "m" / "1" / "model.py").unlink()
    with pytest.raises(NotFoundError, match=r"model 'm' has no 'model.py' in '.*/m/1': the folder is empty"):
        workshop.backend.load(workshop.context(form=form))


def test_an_unknown_form_is_refused(workshop):
    workshop.write(GOOD)
    with pytest.raises(InvalidArgumentError, match="'execution' must be one of isolated, inline, got 'outline'"):
        workshop.backend.load(workshop.context(form="outline"))


def test_the_form_may_come_from_the_command_line(workshop):
    workshop.write(GOOD)
    context = workshop.context(settings={"execution": "inline"})
    del context.config.parameters["execution"]
    model = workshop.backend.load(context)
    assert type(model.create_instance(SPEC)).__name__ == "InlineInstance"
    context.config.parameters["execution"].string_value = "isolated"  # the model's own word counts more
    instance = workshop.backend.load(context).create_instance(SPEC)
    assert type(instance).__name__ == "IsolatedInstance"
