"""Load and unload parameters, in both forms."""

import base64
import json

import pytest

from charonia.config import service_schema as schema
from charonia.core.errors import InvalidArgumentError
from charonia.core.overrides import LoadOverrides
from charonia.frontend.control.load import (
    dependents_of_body,
    dependents_of_message,
    overrides_of_body,
    overrides_of_message,
)


def body(**parameters):
    return json.dumps({"parameters": parameters}).encode()


def message(name, **value):
    request = schema.RepositoryModelLoadRequest(model_name="m")
    request.parameters[name].CopyFrom(schema.ModelRepositoryParameter(**value))
    return request


def refused(read, request):
    with pytest.raises(InvalidArgumentError) as caught:
        read(request)
    return str(caught.value)


@pytest.mark.parametrize("text", [b"", b"{}", b'{"parameters":{}}', b'{"other":1}'])
def test_no_parameters(text):
    assert overrides_of_body(text) == LoadOverrides()
    assert dependents_of_body(text) is False


def test_config_and_files():
    content = bytes(range(256)) * 3
    read = overrides_of_body(
        body(
            config='{"backend":"identity"}',
            **{"file:1/model.onnx": base64.b64encode(content).decode(), "file:labels.txt": ""},
        )
    )
    assert read == LoadOverrides('{"backend":"identity"}', {"1/model.onnx": content, "labels.txt": b""})
    request = message("config", string_param='{"backend":"identity"}')
    request.parameters["file:1/model.onnx"].bytes_param = content
    request.parameters["file:labels.txt"].bytes_param = b""
    assert overrides_of_message(request) == read


def test_base64_may_have_line_breaks():
    content = bytes(range(256))
    text = base64.encodebytes(content).decode().replace("\n", "\r\n")
    assert overrides_of_body(body(**{"file:x": text})).files == {"x": content}


@pytest.mark.parametrize("text", ["a", "YQ", "YQ=", "Y===", "YQ==YQ==", "YQ== ", "Y*==", "-_-_", "ü"])
def test_what_is_no_base64_is_named(text):
    assert "load parameter 'file:1/m' is not valid base64" in refused(overrides_of_body, body(**{"file:1/m": text}))


@pytest.mark.parametrize(
    ("value", "got"),
    [({}, "an object"), ([], "an array"), (None, "null"), (1, "the number 1"), (True, "a boolean")],
)
def test_wrong_types_in_a_body(value, got):
    for name in ("config", "file:1/model.py"):
        sentence = refused(overrides_of_body, body(**{name: value}))
        assert f"invalid value type for load parameter '{name}', expected a string" in sentence
        assert sentence.endswith(f"got {got}")
    if value is not True:
        sentence = refused(dependents_of_body, body(unload_dependents=value))
        assert sentence == f"invalid value type for 'unload_dependents' parameter, expected a boolean; got {got}"


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("config", {"bytes_param": b"{}"}, "parameter 'config', expected string_param; got bytes_param"),
        ("config", {}, "parameter 'config', expected string_param; got no value"),
        ("file:1/m", {"string_param": "YQ=="}, "parameter 'file:1/m', expected bytes_param; got string_param"),
        ("file:1/m", {"int64_param": 1}, "parameter 'file:1/m', expected bytes_param; got int64_param"),
    ],
)
def test_wrong_types_in_a_message(name, value, words):
    assert f"invalid value type for load {words}" in refused(overrides_of_message, message(name, **value))


def test_load_refuses_what_it_does_not_know():
    assert "unrecognized load parameter 'cofnig'" in refused(overrides_of_body, body(cofnig="{}"))
    assert "unrecognized load parameter 'cofnig'" in refused(overrides_of_message, message("cofnig", string_param=""))
    assert len(refused(overrides_of_body, body(**{"x" * 100_000: ""}))) < 500


def unload(name, **value):
    request = schema.RepositoryModelUnloadRequest(model_name="m")
    request.parameters[name].CopyFrom(schema.ModelRepositoryParameter(**value))
    return request


def test_unload_dependents():
    for value in (True, False):
        assert dependents_of_body(body(unload_dependents=value)) is value
        assert dependents_of_message(unload("unload_dependents", bool_param=value)) is value
    sentence = refused(dependents_of_message, unload("unload_dependents", int64_param=1))
    assert sentence == "invalid value type for 'unload_dependents' parameter, expected bool_param; got int64_param"


def test_unload_passes_over_what_it_does_not_know():
    assert dependents_of_body(body(foo={"a": [1]})) is False
    assert dependents_of_message(unload("foo", string_param="x")) is False
