"""Trace settings on the wire: bodies and messages, and what is wrong with them."""

import asyncio
import json

import pytest

from charonia.config import service_schema as schema
from charonia.config.json_form import config_to_json_text
from charonia.core.errors import Code, InvalidArgumentError
from charonia.frontend.control.app import ControlApp
from charonia.frontend.control.asgi_bridge import AsgiBridge
from charonia.frontend.control.rpc import ControlRpc
from charonia.frontend.control.tracing import request_of_body, request_of_message, settings_json
from charonia.frontend.control.waiting import WaitingCalls
from charonia.observe.traces.config import parse_trace_config
from charonia.observe.traces.setting import Level, TraceValues
from charonia.testing.calls import FakeHttpCall, FakeRpcCall

STATUS = {Code.INVALID_ARGUMENT: 400, Code.NOT_FOUND: 404, Code.UNAVAILABLE: 503, Code.UNIMPLEMENTED: 501}
START = {
    "trace_level": ["OFF"],
    "trace_rate": "1000",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_file": "traces.json",
    "trace_mode": "triton",
}


@pytest.fixture
def over_http(handlers, log):
    app = ControlApp(handlers, config_to_json_text, STATUS.__getitem__, log, WaitingCalls(), None)

    def ask(model="", **settings):
        path = f"/v2/models/{model}/trace/setting" if model else "/v2/trace/setting"
        body = json.dumps(settings).encode() if settings else b""
        call = FakeHttpCall("POST" if settings else "GET", path, body=body)
        asyncio.run(AsgiBridge({"http": app}, log).serve(call))
        answer = json.loads(call.answer)
        return answer if call.status == 200 else (call.status, answer["error"])

    return ask


@pytest.fixture
def over_grpc(handlers, log):
    def ask(model="", **settings):
        request = schema.TraceSettingRequest(model_name=model)
        for name, value in settings.items():
            request.settings[name].value.extend([] if value is None else value if isinstance(value, list) else [value])
        call = FakeRpcCall("/inference.GRPCInferenceService/TraceSetting", request.SerializeToString())
        asyncio.run(ControlRpc(handlers, log, WaitingCalls()).serve(call))
        if call.failure is not None:
            return STATUS[call.failure[0]], call.failure[1]
        settings = schema.TraceSettingResponse.FromString(call.response).settings
        values = {name: list(value.value) for name, value in settings.items()}
        return {name: value if name == "trace_level" else value[0] for name, value in values.items()}

    return ask


@pytest.fixture(params=["over_http", "over_grpc"])
def ask(request):
    return request.getfixturevalue(request.param)


def test_settings_are_read_and_changed(ask):
    assert ask() == START
    changed = START | {"trace_level": ["TIMESTAMPS", "TENSORS"], "trace_rate": "2", "log_frequency": "7"}
    told = ask(trace_level=["TENSORS", "TIMESTAMPS"], trace_rate="2", log_frequency="7", other="x")
    assert told == ask() == ask("id") == changed


def test_a_model_has_its_own_and_follows_again(ask):
    assert ask("id", trace_rate="3") == START | {"trace_rate": "3"}
    assert ask() == ask("addsub") == START
    assert ask("id", trace_rate=None) == START


@pytest.mark.parametrize(
    ("settings", "status", "words"),
    [
        ({"trace_file": "x"}, 501, "trace file location can not be updated through network protocol"),
        ({"trace_mode": "opentelemetry"}, 501, "trace mode can not be updated"),
        ({"trace_rate": "x"}, 400, "Unable to parse 'trace_rate', got: x"),
        ({"trace_rate": "1.5"}, 400, "Unable to parse 'trace_rate'"),
        ({"trace_rate": "1_0"}, 400, "Unable to parse 'trace_rate'"),
        ({"trace_rate": "-1"}, 400, "out of range [ 0, 2147483647 ]"),
        ({"trace_count": "-2"}, 400, "Unable to parse 'trace_count', value is out of range [ -1, "),
        ({"log_frequency": "10000000000"}, 400, "Unable to parse 'log_frequency'"),
        ({"trace_level": ["OFF", "TENSORS"]}, 400, "Expect only one trace level 'OFF' is specified"),
        ({"trace_level": ["ALL"]}, 400, "unknown trace level"),
        ({"trace_level": ["TIMESTAMPS"], "trace_rate": "0"}, 400, "Attempting to set invalid trace setting"),
    ],
)
def test_what_is_wrong_is_told_and_changes_nothing(ask, settings, status, words):
    code, message = ask(**settings)
    assert (code, words in message) == (status, True), message
    assert ask() == START


def test_the_mode_that_it_is_may_be_said(ask):
    assert ask(trace_mode="triton") == START


def test_unknown_models(ask):
    for settings in ({}, {"trace_rate": "1"}):
        code, message = ask("nope", **settings)
        assert (code, message.startswith("Request for unknown model : nope")) == (404, True)


@pytest.mark.parametrize(
    "body",
    [
        b'{"trace_rate": 1}',
        b'{"trace_rate": ["1"]}',
        b'{"trace_level": "TIMESTAMPS"}',
        b'{"trace_level": [1]}',
        b'{"trace_mode": {}}',
        b"[]",
        b"{",
    ],
)
def test_values_of_another_kind(body):
    with pytest.raises(InvalidArgumentError):
        request_of_body(body)


def test_several_values_over_grpc():
    request = schema.TraceSettingRequest()
    request.settings["trace_rate"].value.extend(["1", "2"])
    with pytest.raises(InvalidArgumentError, match="expect only 1 value for 'trace_rate', got 2"):
        request_of_message(request)


def test_a_collectors_settings_are_shown():
    config = parse_trace_config(("mode=opentelemetry", "opentelemetry,url=localhost:1"), {})
    assert list(settings_json(TraceValues(Level.TIMESTAMPS), config).items()) == [
        ("trace_level", ["TIMESTAMPS"]),
        ("trace_rate", "1000"),
        ("trace_count", "-1"),
        ("trace_mode", "opentelemetry"),
        ("url", "localhost:1"),
        ("bsp_max_queue_size", "2048"),
        ("bsp_schedule_delay", "5000"),
        ("bsp_max_export_batch_size", "512"),
    ]
