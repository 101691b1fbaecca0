"""Models that answer a request with any number of responses, through every door for them, in both forms."""

import os

import numpy as np
import pytest

from tests.every_door.doors import RefusedError
from tests.every_door.stream_doors import STREAM_DOORS
from tests.models.gated import readable
from tests.models.repository import write_config, write_python_model

FORMS = ("isolated", "inline")
CONFIG = """
model_transaction_policy { decoupled: %s }
input { name: "WORDS" data_type: TYPE_STRING dims: [ -1 ] }
output { name: "TEXT" data_type: TYPE_STRING dims: [ -1 ] }
output { name: "COUNT" data_type: TYPE_INT64 dims: [ 1 ] }
parameters { key: "execution" value { string_value: "%s" } }
"""
# WORDS says what to do: each word is a response; "!x" is the error x; "." ends at once, as the end does anyway.
SPEAKER = """
import json
import threading
import numpy as np
import triton_python_backend_utils as pb_utils

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            words = pb_utils.get_input_tensor_by_name(request, "WORDS").as_numpy().tolist()
            parameters = json.loads(request.parameters())
            work = threading.Thread(target=self.speak, args=(request.get_response_sender(), words, parameters))
            work.start()
            if parameters.get("in_order"):
                work.join()

    def speak(self, sender, words, parameters):
        for number, word in enumerate(words):
            last = parameters.get("end_with_last", False) and number == len(words) - 1
            sender.send(self.response(word, number, parameters), flags=FINAL if last else 0)
            if last:
                return
        sender.send(flags=FINAL)

    def response(self, word, number, parameters):
        if word.startswith(b"!"):
            error = pb_utils.TritonError(word[1:].decode(), pb_utils.TritonError.INVALID_ARG)
            return pb_utils.InferenceResponse(error=error)
        tensors = [
            pb_utils.Tensor("TEXT", np.array([word], np.object_)),
            pb_utils.Tensor("COUNT", np.array([(1 << 60) + number])),
        ]
        told = {"position": number, "mark": "a"} if parameters.get("tells") else {}
        return pb_utils.InferenceResponse(tensors, parameters=told)
"""
# Sends until its reader has gone, and then says so.
UNTIL_CANCELLED = """
import os
import threading
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            path = pb_utils.get_input_tensor_by_name(request, "WORDS").as_numpy()[0].decode()
            threading.Thread(target=self.speak, args=(request.get_response_sender(), path)).start()

    def speak(self, sender, path):
        count = 0
        while not sender.is_cancelled():
            count += 1
            text = pb_utils.Tensor("TEXT", np.array(["x" * 10000], np.object_))
            sender.send(pb_utils.InferenceResponse([text, pb_utils.Tensor("COUNT", np.array([count]))]))
        sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
        with open(path, "w") as pipe:
            pipe.write("cancelled")
"""
PLAIN = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(pb_utils.get_input_tensor_by_name(request, "WORDS").as_numpy()) for request in requests]

    def answer(self, words):
        if words[0] == b"!":
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("no", pb_utils.TritonError.INVALID_ARG))
        return pb_utils.InferenceResponse([pb_utils.Tensor("TEXT", words), pb_utils.Tensor("COUNT", np.array([1]))])
"""
ENSEMBLE = """
platform: "ensemble"
input { name: "WORDS" data_type: TYPE_STRING dims: [ -1 ] }
output { name: "TEXT" data_type: TYPE_STRING dims: [ -1 ] }
output { name: "COUNT" data_type: TYPE_INT64 dims: [ 1 ] }
ensemble_scheduling {
  step {
    model_name: "plain-%(form)s" model_version: -1
    input_map { key: "WORDS" value: "WORDS" } output_map { key: "TEXT" value: "passed" }
  }
  step {
    model_name: "speaker-%(form)s" model_version: -1
    input_map { key: "WORDS" value: "passed" }
    output_map { key: "TEXT" value: "spoken" } output_map { key: "COUNT" value: "COUNT" }
  }
  step {
    model_name: "plain-%(form)s" model_version: -1
    input_map { key: "WORDS" value: "spoken" } output_map { key: "TEXT" value: "TEXT" }
  }
}
"""


def lay_out(folder):
    for form in FORMS:
        write_python_model(folder, f"speaker-{form}", CONFIG % ("true", form), SPEAKER)
        write_python_model(folder, f"endless-{form}", CONFIG % ("true", form), UNTIL_CANCELLED)
        write_python_model(folder, f"plain-{form}", CONFIG % ("false", form), PLAIN)
        (write_config(folder, f"chain-{form}", ENSEMBLE % {"form": form}) / "1").mkdir()


@pytest.fixture(params=FORMS)
def form(request):
    return request.param


@pytest.fixture(params=STREAM_DOORS, ids=lambda door: door.name)
def stream_door(request, server):
    opened = request.param(server)
    yield opened
    opened.close()


def stream(door, form, *words, model="speaker", id="", **parameters):
    return door.stream(f"{model}-{form}", {"WORDS": np.array(words, np.object_)}, parameters=parameters, id=id)


def said(answers):
    return [answer["TEXT"] for answer in answers]


@pytest.mark.parametrize("count", [1, 2, 5, 100])
@pytest.mark.parametrize("end_with_last", [False, True])
def test_responses_come_in_their_order(stream_door, form, count, end_with_last):
    words = [f"w{number}" for number in range(count)]
    answers = list(stream(stream_door, form, *words, id="q7", end_with_last=end_with_last))
    assert said(answers) == [[word] for word in words]
    assert [answer["COUNT"] for answer in answers] == [[(1 << 60) + number] for number in range(count)]
    assert all(answer["parameters"] == {} for answer in answers)


def test_no_response_at_all(stream_door, form):
    assert list(stream_door.stream(f"speaker-{form}", {"WORDS": np.array([], np.object_)})) == []


def test_parameters_of_responses(stream_door, form):
    answers = list(stream(stream_door, form, "a", "b", tells=True))
    assert [answer["parameters"] for answer in answers] == [
        {"position": 0, "mark": "a"},
        {"position": 1, "mark": "a"},
    ]


@pytest.mark.parametrize("before", [0, 1, 3])
def test_an_error_comes_after_the_responses_before_it(stream_door, form, before):
    words = [f"w{number}" for number in range(before)]
    heard = []
    with pytest.raises(RefusedError, match="broken here"):
        heard.extend(stream(stream_door, form, *words, "!broken here", end_with_last=True))
    assert said(heard) == [[word] for word in words]
    assert said(stream(stream_door, form, "still", "there")) == [["still"], ["there"]]


@pytest.mark.parametrize("count", [1, 3, 50])
def test_a_stream_flows_through_an_ensemble(stream_door, form, count):
    words = [f"w{number}" for number in range(count)]
    answers = list(stream(stream_door, form, *words, model="chain", id="q7"))
    assert said(answers) == [[word] for word in words]
    assert [answer["COUNT"] for answer in answers] == [[(1 << 60) + number] for number in range(count)]


def test_an_error_in_the_middle_of_an_ensemble(stream_door, form):
    """It ends the request, also where steps after it are still at work on earlier responses."""
    with pytest.raises(RefusedError, match="broken here"):
        list(stream(stream_door, form, "a", "!broken here", model="chain", end_with_last=True))
    assert said(stream(stream_door, form, "still", "there", model="chain")) == [["still"], ["there"]]


def test_a_refused_request(stream_door, form):
    with pytest.raises(RefusedError, match="expected 1 inputs but got 0"):
        list(stream_door.stream(f"speaker-{form}", {}))
    with pytest.raises(RefusedError, match="nope"):
        list(stream_door.stream("nope", {}))


def test_many_at_once_keep_apart(stream_door, form, clients):
    def one(number):
        words = [f"{number}.{position}" for position in range(20)]
        return said(stream(stream_door, form, *words)) == [[word] for word in words]

    assert all(clients.map(one, range(40)))


def test_a_model_with_one_response_may_be_asked_for_a_stream(stream_door, form):
    assert said(stream(stream_door, form, "a", "b", model="plain")) == [["a", "b"]]
    with pytest.raises(RefusedError, match="no"):
        list(stream(stream_door, form, "!", model="plain"))


@pytest.fixture
def pipe(tmp_path):
    """A pipe's path, and what waits for words in it."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    end = os.open(path, os.O_RDONLY | os.O_NONBLOCK)

    def read():
        assert readable(end), "nothing came"
        return os.read(end, 100).decode()

    yield path, read
    os.close(end)


def test_who_leaves_early_cancels(stream_door, form, pipe, server):
    path, read = pipe
    answers = stream(stream_door, form, str(path), model="endless")
    assert [next(answers)["COUNT"], next(answers)["COUNT"]] == [[1], [2]]
    answers.close()
    assert read() == "cancelled"


def test_statistics_count_a_request_once(stream_door, form, server):
    model = server.model(f"speaker-{form}")
    before = model.statistics().inference_count
    list(stream(stream_door, form, "a", "b", "c", in_order=True))
    assert model.statistics().inference_count == before + 1
