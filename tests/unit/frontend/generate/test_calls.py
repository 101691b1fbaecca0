"""generate and generate_stream from call to answer, with a model that answers as the test says."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

from charonia.config.io import InputSpec
from charonia.core.errors import (
    BackendError,
    CancelledError,
    Code,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    QueueFullError,
    UnavailableError,
    UnsupportedError,
)
from charonia.core.request import SEQUENCE_END, SEQUENCE_START, Reply
from charonia.core.tensor import Tensor
from charonia.frontend.generate.calls import Generate
from charonia.frontend.generate.request import Limits
from charonia.testing.calls import FakeHttpCall
from charonia.testing.log import kept_log

STATUS = {
    Code.CANCELLED: 499,
    Code.INVALID_ARGUMENT: 400,
    Code.NOT_FOUND: 404,
    Code.UNIMPLEMENTED: 501,
    Code.INTERNAL: 500,
    Code.UNAVAILABLE: 503,
}
MODEL = SimpleNamespace(
    name="m",
    inputs=(InputSpec("TEXT", "BYTES", (1,)),),
    config=SimpleNamespace(max_batch_size=0),
)
NAMES = {"model_name": "m", "model_version": "1"}


class Models:
    def find(self, name, version):
        if name != "m":
            raise NotFoundError(f"unknown model '{name}'")
        return MODEL


class Model:
    """Is submitted requests, and answers them by `script`, a list of what `answer` takes."""

    def __init__(self, *script):
        self.script = script
        self.requests = []

    def submit(self, request):
        self.requests.append(request)
        request.version, request.queue_start_ns = "1", 1
        for what in self.script:
            self.answer(what)

    def answer(self, what, *, final=False):
        """Text is a response, an error an error, None the end; a tuple of one is the final response."""
        request = self.request
        if isinstance(what, tuple):
            what, final = what[0], True
        if isinstance(what, str | bytes):
            tensor = Tensor.from_numpy("OUT", np.array([what], np.object_))
            self._send(Reply(request, [tensor], final=final))
        elif what is None:
            self._send(Reply(request, has_response=False))
        else:
            self._send(Reply(request, error=what, final=final))

    def _send(self, reply):
        if not reply.final or self.request.settle():
            self.request.channel.send([reply])

    @property
    def request(self):
        return self.requests[-1]


class Refusing(Model):
    def __init__(self, error):
        super().__init__()
        self.error = error

    def submit(self, request):
        self.requests.append(request)
        request.settle()
        request.channel.send([Reply(request, error=self.error)])


def generate_of(model, log, status_of=STATUS.__getitem__):
    return Generate(model, Models(), status_of, log, Limits(1 << 20, 100))


def call_of(route, body=None, model="m"):
    return FakeHttpCall("POST", f"/v2/models/{model}/{route}", body=json.dumps(body or {"TEXT": "x"}).encode())


def ask(model, log, route="generate", body=None, name="m"):
    call, generate = call_of(route, body, name), generate_of(model, log)
    assert generate.takes(call)
    generate._large.shutdown()  # what is large is read by another thread
    assert call.ended
    assert not log.errors
    assert not generate._live
    return call


def events(call):
    """The events of an answer, which are one piece each."""
    assert call.answer_headers == {"content-type": "text/event-stream; charset=utf-8"}
    *pieces, end = call.chunks
    assert end == (b"", False)
    for piece, _ in pieces:
        assert piece.startswith(b"data: ")
        assert piece.endswith(b"\n\n")
        assert piece.count(b"\n") == 2
    return [json.loads(piece.removeprefix(b"data: ")) for piece, _ in pieces]


@pytest.mark.parametrize("script", [[("hello",)], ["hello", None]])
def test_the_only_response_is_the_answer(log, script):
    call = ask(Model(*script), log, body={"TEXT": "x", "id": "q"})
    assert call.status == 200
    assert call.answer == b'{"OUT":"hello","id":"q","model_name":"m","model_version":"1"}'
    assert call.answer_headers == {"content-type": "application/json"}


@pytest.mark.parametrize("script", [[None], ["a", "b", None], ["a", "b", "c"], ["a", ("b",)]])
def test_none_or_several_responses_are_no_answer(log, script):
    model = Model(*script)
    call = ask(model, log)
    assert call.status == 400
    assert call.answer.startswith(
        b'{"error":"generate expects model to produce exactly 1 response, use generate stream'
    )
    assert model.request.settled or model.request.cancelled


def test_a_stream_has_an_event_for_each_response(log):
    for script in (["a", "b", None], ["a", ("b",)]):
        call = ask(Model(*script), log, "generate_stream")
        assert call.status == 200
        assert events(call) == [{"OUT": "a", **NAMES}, {"OUT": "b", **NAMES}]


def test_a_stream_without_responses_is_empty(log):
    call = ask(Model(None), log, "generate_stream")
    assert (call.status, events(call)) == (200, [])


ERRORS = [
    (BackendError("broken"), 400),
    (InvalidArgumentError("wrong"), 400),
    (NotFoundError("no such token"), 400),
    (UnsupportedError("can't"), 400),
    (CancelledError("gone"), 400),
    (UnavailableError("unloading"), 503),
    (QueueFullError("full"), 503),
    (InternalError("a fault of the server"), 500),
]


@pytest.mark.parametrize(("error", "status"), ERRORS)
def test_an_error_instead_of_a_response_sets_the_status(log, error, status):
    told = {"error": str(error)}
    call = ask(Model((error,)), log)
    assert (call.status, json.loads(call.answer)) == (status, told)
    assert call.answer_headers == {"content-type": "application/json"}
    call = ask(Model((error,)), log, "generate_stream")
    assert (call.status, events(call)) == (status, [told])


def test_an_error_after_a_response(log):
    script = ["a", BackendError("broken"), "b", (InvalidArgumentError("wrong"),)]
    call = ask(Model(*script), log, "generate_stream")
    assert call.status == 200
    assert events(call) == [{"OUT": "a", **NAMES}, {"error": "broken"}, {"OUT": "b", **NAMES}, {"error": "wrong"}]
    call = ask(Model(*script), log)
    assert (call.status, json.loads(call.answer)) == (400, {"error": "broken"})


@pytest.mark.parametrize("route", ["generate", "generate_stream"])
@pytest.mark.parametrize(
    ("error", "status"),
    [(InvalidArgumentError("wrong"), 400), (QueueFullError("full"), 503), (UnsupportedError("no"), 501)],
)
def test_what_is_refused_is_plain_json_with_its_own_status(log, route, error, status):
    call = ask(Refusing(error), log, route)
    assert (call.status, json.loads(call.answer)) == (status, {"error": str(error)})
    assert call.answer_headers["content-type"] == "application/json"


@pytest.mark.parametrize("route", ["generate", "generate_stream"])
def test_wrong_bodies_and_unknown_models_never_reach_the_engine(log, route):
    model = Model()
    assert ask(model, log, route, {"TEXT": 5}).status == 400
    assert ask(model, log, route, {"TEXT": "x", "priority": "high"}).status == 400
    assert ask(model, log, route, name="nope").status == 404
    assert model.requests == []


def test_the_request(log):
    body = {"TEXT": "x", "id": "q", "temperature": 0.5, "priority": 2, "timeout": 7, "sequence_id": "s"}
    body["parameters"] = {"sequence_start": True, "sequence_end": True}
    model = Model(("y",))
    ask(model, log, body=body)
    request = model.request
    assert (request.model_name, request.id, request.priority, request.timeout_us) == ("m", "q", 2, 7)
    assert (request.correlation_id, request.flags) == ("s", SEQUENCE_START | SEQUENCE_END)
    assert request.parameters == {"temperature": 0.5}
    assert request.inputs["TEXT"].numpy().tolist() == [b"x"]
    assert request.takes_stream
    assert request.flow.has_room()


def test_a_response_with_an_output_that_is_too_large(log):
    model = Model("a", "b" * (2 << 20))
    call = ask(model, log, "generate_stream")
    first, second = events(call)
    assert first["OUT"] == "a"
    assert "bytes, at most 1048576" in second["error"]
    assert model.request.cancelled


def test_what_is_large_is_read_and_written_all_the_same(log):
    text = "é" * 300_000
    call = ask(Model((text,)), log, body={"TEXT": text})
    assert json.loads(call.answer)["OUT"] == text
    call = ask(Model(text, None), log, "generate_stream", {"TEXT": text})
    assert [event["OUT"] for event in events(call)] == [text]
    assert ask(Model(), log, body={"TEXT": [text, 5]}).status == 400


def test_what_is_large_is_refused_once_the_server_stops(log):
    generate, call = generate_of(Model(), log), call_of("generate", {"TEXT": "x" * 300_000})
    generate.close()
    assert generate.takes(call)
    assert (call.status, json.loads(call.answer)) == (503, {"error": "the server is stopping"})


def test_a_character_between_two_responses(log):
    whole = "é".encode()
    call = ask(Model(b"caf" + whole[:1], whole[1:] + b"!", None), log, "generate_stream")
    assert [event["OUT"] for event in events(call)] == ["caf", "é!"]
    call = ask(Model(b"caf" + whole[:1], None), log, "generate_stream")
    assert [event["OUT"] for event in events(call)] == ["caf", "\ufffd"]
    call = ask(Model(b"caf" + whole[:1], None), log)
    assert json.loads(call.answer)["OUT"] == "caf\ufffd"


def test_an_event_is_one_line_for_every_reader(log):
    text = "".join(map(chr, range(1, 0x100))) + "\u2028\u2029"
    call = ask(Model((text,)), log, "generate_stream")
    assert [event["OUT"] for event in events(call)] == [text]
    assert len(call.answer.decode().splitlines()) == 2


def test_events_go_out_as_they_come(log):
    model, call = Model(), call_of("generate_stream")
    assert generate_of(model, log).takes(call)
    assert call.status == 0
    for count, what in enumerate(("a", "b"), 1):
        model.answer(what)
        assert len(call.chunks) == count
    model.answer(None)
    assert len(events(call)) == 2


@pytest.mark.parametrize("route", ["generate", "generate_stream"])
@pytest.mark.parametrize("started", [False, True])
def test_a_client_that_leaves_cancels_the_request(log, route, started):
    model, call, heard = Model(*(["a"] if started else [])), call_of(route), []
    generate = generate_of(model, log)
    assert generate.takes(call)
    model.request.on_cancel(lambda: heard.append("cancelled"))
    call.leave()
    generate.told([call.key + 1, call.key])
    generate.told([call.key])
    assert heard == ["cancelled"]
    assert model.request.flow.has_room()
    model.answer("late")
    model.answer(None)
    assert len(call.chunks) == (1 if started and route == "generate_stream" else 0)
    assert not log.errors


def test_a_client_that_left_before_anybody_knew_its_request(log):
    call = call_of("generate_stream")
    call.leave()
    model = Model()
    assert generate_of(model, log).takes(call)
    assert model.request.cancelled


def test_a_slow_reader_leaves_no_room(log):
    model, call, heard = Model("a"), call_of("generate_stream"), []
    generate = generate_of(model, log)
    assert generate.takes(call)
    flow = model.request.flow
    assert flow.has_room()
    call.is_behind = True
    assert not flow.has_room()
    flow.on_room(lambda: heard.append("room"))
    generate.told([call.key])
    assert heard == []
    call.is_behind = False
    generate.told([call.key])
    assert heard == ["room"]


def test_replies_of_several_threads_are_answered_once(log):
    """The time-out of a queue and the model may reply at the same moment."""
    model, call = Model(), call_of("generate_stream")
    assert generate_of(model, log).takes(call)
    request = model.request
    model.answer(("a",))
    request.channel.send([Reply(request, error=BackendError("late"))])
    assert len(events(call)) == 1


def test_a_fault_of_the_server_is_an_answer_too(log):
    class Broken:
        def submit(self, request):
            raise ZeroDivisionError

    call = call_of("generate")
    assert generate_of(Broken(), log).takes(call)
    assert (call.status, call.ended) == (500, True)
    assert "ZeroDivisionError" in log.errors[0]


@pytest.mark.parametrize("route", ["generate", "generate_stream"])
def test_a_response_that_can_not_be_written(log, route):
    model, call = Model(), call_of(route)
    assert generate_of(model, log).takes(call)
    broken = Tensor.from_numpy("OUT", np.zeros(3, np.float32))
    broken.datatype = "FP64"  # three times 4 bytes are no whole number of FP64
    model.request.channel.send([Reply(model.request, [broken], final=False)])
    assert (call.status, call.ended) == (500, True)
    assert "failed to write this answer" in json.loads(call.answer.removeprefix(b"data: "))["error"]
    assert log.errors
    assert model.request.cancelled


@pytest.mark.parametrize(
    "line",
    [
        "GET /v2/models/m/generate",
        "POST /v2/models/m/infer",
        "POST /v2/models/m/generate/",
        "POST /v2/models/m/versions/one/generate",
        "POST /v2/models//generate",
        "POST /x/v2/models/m/generate",
    ],
)
def test_other_calls_are_left_to_others(log, line):
    method, path = line.split()
    assert not generate_of(Model(), log).takes(FakeHttpCall(method, path, body=b'{"TEXT":"x"}'))


def test_names_are_decoded(log):
    model = Model(("y",))
    assert generate_of(model, log).takes(call_of("versions/07/generate", model="%6d"))
    assert (model.request.model_name, model.request.model_version) == ("m", 7)


def test_lines_of_the_log(log):
    kept, lines = kept_log(verbose_level=1)
    generate = generate_of(Model(("y",)), kept)
    for body in ({"TEXT": "x", "id": "q"}, {"TEXT": 5}):
        assert generate.takes(call_of("generate", body))
    for part, line in zip(("http request 'q'", "answer to request 'q'", "INVALID_ARGUMENT"), lines.lines, strict=True):
        assert part in line
