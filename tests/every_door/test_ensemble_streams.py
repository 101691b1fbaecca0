"""Ensembles with decoupled steps, through every door for streams: each response flows on, in order, to the reader."""

import os

import numpy as np
import pytest
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from charonia.core.errors import UnsupportedError
from tests.every_door.doors import RefusedError
from tests.every_door.stream_doors import STREAM_DOORS
from tests.every_door.test_ensembles import ensemble, identity
from tests.every_door.test_streams import CONFIG, SPEAKER, UNTIL_CANCELLED
from tests.models.gated import readable
from tests.models.repository import write_python_model

FORMS = ("isolated", "inline")
# Each word twice, and every "x" ends its request with an error.
TWICE = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()) for request in requests]

    def answer(self, words):
        if words[0] == b"x":
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("no x", pb_utils.TritonError.INVALID_ARG))
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([words[0] * 2], np.object_))])
"""
# Each letter of each word is a response.
SPELLER = """
import threading
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            words = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy().tolist()
            threading.Thread(target=self.spell, args=(request.get_response_sender(), words)).start()

    def spell(self, sender, words):
        for letter in b"".join(words).decode():
            sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUT", np.array([letter], np.object_))]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""
TWICE_CONFIG = """
input { name: "IN" data_type: TYPE_STRING dims: [ -1 ] }
output { name: "OUT" data_type: TYPE_STRING dims: [ -1 ] }
parameters { key: "execution" value { string_value: "%s" } }
instance_group [ { count: 2 kind: KIND_CPU } ]
"""
TEXT = ("STRING", "dims: [ -1 ]")


def lay_out(folder):
    identity(folder, "same", "STRING", max_batch_size=0)
    for form in FORMS:
        write_python_model(folder, f"speaker-{form}", CONFIG % ("true", form), SPEAKER)
        write_python_model(folder, f"endless-{form}", CONFIG % ("true", form), UNTIL_CANCELLED)
        write_python_model(folder, f"twice-{form}", TWICE_CONFIG % form, TWICE)
        decoupled = "model_transaction_policy { decoupled: true }"
        write_python_model(folder, f"speller-{form}", TWICE_CONFIG % form + decoupled, SPELLER)
        for options in ("", "max_inflight_requests: 1"):
            ensemble(
                folder,
                f"spelling-{form}{'-limited' if options else ''}",
                [("WORDS", *TEXT)],
                [("TEXT", *TEXT)],
                (f"speaker-{form}", {"WORDS": "WORDS"}, {"TEXT": "word"}),
                (f"speller-{form}", {"IN": "word"}, {"OUT": "letter"}),
                (f"twice-{form}", {"IN": "letter"}, {"OUT": "TEXT"}),
                max_batch_size=0,
                options=options,
            )
            for first in ("speaker", "endless"):
                ensemble(
                    folder,
                    f"{first}-{form}{'-limited' if options else ''}-chain",
                    [("WORDS", *TEXT)],
                    [("TEXT", *TEXT)],
                    ("same", {"IN": "WORDS"}, {"OUT": "words"}),
                    (f"{first}-{form}", {"WORDS": "words"}, {"TEXT": "said"}),
                    (f"twice-{form}", {"IN": "said"}, {"OUT": "twice"}),
                    ("same", {"IN": "twice"}, {"OUT": "TEXT"}),
                    max_batch_size=0,
                    options=options,
                )
        ensemble(
            folder,
            f"outer-{form}",
            [("WORDS", *TEXT)],
            [("TEXT", *TEXT)],
            (f"speaker-{form}-chain", {"WORDS": "WORDS"}, {"TEXT": "twice"}),
            (f"twice-{form}", {"IN": "twice"}, {"OUT": "TEXT"}),
            max_batch_size=0,
        )


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


@pytest.fixture(params=["", "-limited"], ids=["", "limited"])
def limited(request):
    return request.param


@pytest.fixture(params=STREAM_DOORS, ids=lambda door: door.name)
def stream_door(request, server):
    opened = request.param(server)
    yield opened
    opened.close()


def stream(door, model, *words, **parameters):
    return door.stream(model, {"WORDS": np.array(words, np.object_)}, parameters=parameters)


def said(answers):
    return [answer["TEXT"][0] for answer in answers]


@pytest.mark.parametrize("count", [0, 1, 3, 100])
def test_responses_flow_on_in_their_order(stream_door, form, limited, count):
    words = [str(number) for number in range(count)]
    answers = stream(stream_door, f"speaker-{form}{limited}-chain", *words)
    assert said(answers) == [word * 2 for word in words]


@pytest.mark.parametrize("count", [0, 1, 3, 80])
def test_decoupled_steps_behind_one_another(stream_door, form, limited, count):
    """More is on its way than should be at a time, and later answers are there before earlier ones."""
    words = [f"{number:02}-{'abc' * (number % 15)}" for number in range(count)]
    answers = stream(stream_door, f"spelling-{form}{limited}", *words)
    assert said(answers) == [letter * 2 for letter in "".join(words)]


def test_the_end_may_come_with_the_last_response(stream_door, form, limited):
    answers = stream(stream_door, f"speaker-{form}{limited}-chain", "a", "b", end_with_last=True)
    assert said(answers) == ["aa", "bb"]


def test_an_ensemble_in_an_ensemble(stream_door, form):
    assert said(stream(stream_door, f"outer-{form}", "a", "b", "c")) == ["aaaa", "bbbb", "cccc"]


@pytest.mark.parametrize(
    ("words", "step"),
    [(("a", "!wrong"), "step 2 (model 'speaker-{}'): wrong"), (("a", "x", "b"), "step 3 (model 'twice-{}'): no x")],
)
def test_an_error_ends_the_stream(stream_door, form, limited, words, step):
    model = f"speaker-{form}{limited}-chain"
    came = []
    with pytest.raises(RefusedError) as refused:
        came.extend(answer["TEXT"][0] for answer in stream(stream_door, model, *words))
    assert f"in ensemble '{model}', {step.format(form)}" in str(refused.value)
    assert came in ([], ["aa"])  # it may overtake what is still on its way
    assert said(stream(stream_door, model, "c")) == ["cc"]  # and leaves no place taken


def test_many_at_once_keep_apart(stream_door, form, limited, clients):
    def go(number):
        return said(stream(stream_door, f"speaker-{form}{limited}-chain", *[f"{number}-{each}" for each in range(10)]))

    answers = [*clients.map(go, range(8))]
    assert answers == [[f"{number}-{each}" * 2 for each in range(10)] for number in range(8)]


def test_calls_with_one_answer_are_refused(server, form):
    with httpclient.InferenceServerClient(f"127.0.0.1:{server.ports['http']}") as client:
        given = httpclient.InferInput("WORDS", [1], "BYTES").set_data_from_numpy(np.array(["a"], np.object_))
        with pytest.raises(InferenceServerException, match="doesn't support models with decoupled transaction policy"):
            client.infer(f"speaker-{form}-chain", [given])
    with pytest.raises(UnsupportedError, match="or by stream in process"):
        server.model(f"speaker-{form}-chain").infer(WORDS=["a"])
    with grpcclient.InferenceServerClient(f"127.0.0.1:{server.ports['grpc']}") as client:
        assert client.get_model_config(f"speaker-{form}-chain").config.model_transaction_policy.decoupled


def test_who_leaves_early_cancels_the_steps(stream_door, form, limited, tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        answers = stream(stream_door, f"endless-{form}{limited}-chain", str(path))
        assert said([next(answers), next(answers)]) == ["x" * 20000] * 2
        answers.close()
        assert readable(end), "nobody told the model"
        assert os.read(end, 100) == b"cancelled"
    finally:
        os.close(end)


def test_statistics_count_the_request_once_and_each_step_by_itself(stream_door, form, server):
    models = [server.model(name) for name in (f"speaker-{form}-chain", f"speaker-{form}", f"twice-{form}")]
    before = [model.statistics().execution_count for model in models]
    list(stream(stream_door, f"speaker-{form}-chain", "a", "b", "c", in_order=True))
    after = [model.statistics().execution_count for model in models]
    assert [new - old for new, old in zip(after, before, strict=True)] == [1, 1, 3]
