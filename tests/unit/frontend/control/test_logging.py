import pytest

from charonia.config import service_schema as schema
from charonia.control.logging import LogChange
from charonia.core.errors import InvalidArgumentError
from charonia.frontend.control.logging import change_of_body, change_of_message
from charonia.observe.log import LevelChanges


def message(name, **value):
    request = schema.LogSettingsRequest()
    request.settings[name].CopyFrom(schema.LogSettingsRequest.SettingValue(**value))
    return request


def refused(read, request):
    with pytest.raises(InvalidArgumentError) as caught:
        read(request)
    return str(caught.value)


def test_a_body():
    body = b'{"log_info":false,"log_error":true,"log_verbose_level":3,"log_format":"json","log_file":"x","other":[1]}'
    levels = LevelChanges(info=False, error=True, verbose_level=3)
    assert change_of_body(body) == LogChange(levels, "json", "x")
    assert change_of_body(b"{}") == LogChange()
    assert "is empty" in refused(change_of_body, b"")


def test_null_clears_levels_and_names_nothing_else():
    change = change_of_body(b'{"log_info":null,"log_verbose_level":null,"log_file":null,"log_format":null}')
    assert change == LogChange(cleared=frozenset({"info", "verbose_level"}))


@pytest.mark.parametrize(
    ("member", "words"),
    [
        ('"log_info":1', "'log_info': expected a boolean, got the number 1"),
        ('"log_warning":"false"', "'log_warning': expected a boolean, got a string"),
        ('"log_verbose_level":"1"', "'log_verbose_level': expected an unsigned integer, got a string"),
        ('"log_verbose_level":-1', "'log_verbose_level': expected an unsigned integer, got the number -1"),
        ('"log_verbose_level":1.5', "'log_verbose_level': expected an unsigned integer, got the number 1.5"),
        ('"log_format":1', "'log_format': expected a string, got the number 1"),
        ('"log_file":[]', "'log_file': expected a string, got an array"),
        ('"log_info":False', "not valid JSON"),
    ],
)
def test_a_wrong_body(member, words):
    assert words in refused(change_of_body, f"{{{member}}}".encode())


def test_a_message():
    request = message("log_info", bool_param=False)
    request.settings["log_verbose_level"].uint32_param = 3
    request.settings["log_format"].string_param = "json"
    request.settings["other"].string_param = "passed over"
    assert change_of_message(request) == LogChange(LevelChanges(info=False, verbose_level=3), "json")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("log_info", {"uint32_param": 1}, "expect boolean for 'log_info', as bool_param; got uint32_param"),
        ("log_error", {}, "expect boolean for 'log_error', as bool_param; got no value"),
        ("log_verbose_level", {"string_param": "1"}, "expect int32 for 'log_verbose_level', as uint32_param"),
        ("log_format", {"bool_param": True}, "expect string for 'log_format', as string_param; got bool_param"),
    ],
)
def test_a_wrong_message(name, value, words):
    assert words in refused(change_of_message, message(name, **value))
