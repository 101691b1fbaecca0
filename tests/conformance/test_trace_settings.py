"""Trace settings by the real clients."""

import pytest
from tritonclient.utils import InferenceServerException

START = {
    "trace_level": ["OFF"],
    "trace_rate": "1000",
    "trace_count": "-1",
    "log_frequency": "0",
    "trace_file": "",
    "trace_mode": "triton",
}


def plain(client, answer):
    if not client.is_grpc:
        return answer
    values = {name: each.get("value", [""]) for name, each in answer["settings"].items()}
    return {name: value if name == "trace_level" else value[0] for name, value in values.items()}


@pytest.fixture
def settings(client):
    def ask(model=None, **changes):
        if not changes:
            return plain(client, client.ask("get_trace_settings", model_name=model))
        return plain(client, client.ask("update_trace_settings", model_name=model, settings=changes))

    yield ask
    cleared = dict.fromkeys(("trace_level", "trace_rate", "trace_count", "log_frequency"))
    ask("add_sub", **cleared)
    ask(**cleared)


def test_settings_are_read_and_changed(settings):
    assert settings() == settings("add_sub") == START
    assert settings(trace_rate="5", log_frequency="2") == START | {"trace_rate": "5", "log_frequency": "2"}
    assert settings("add_sub", trace_rate="7")["trace_rate"] == "7"
    assert settings(trace_rate=None)["trace_rate"] == "1000"
    assert settings("add_sub") == START | {"trace_rate": "7", "log_frequency": "2"}


@pytest.mark.parametrize(
    ("change", "words", "statuses"),
    [
        ({"trace_file": "x"}, "trace file location can not be updated", ("501", "StatusCode.UNIMPLEMENTED")),
        ({"trace_level": ["TIMESTAMPS"]}, "trace file name is not given", ("400", "StatusCode.INVALID_ARGUMENT")),
        ({"trace_rate": "x"}, "trace_rate", ("400", "StatusCode.INVALID_ARGUMENT")),
    ],
)
def test_a_wrong_setting_is_named(settings, change, words, statuses):
    with pytest.raises(InferenceServerException, match=words) as caught:
        settings(**change)
    assert caught.value.status() in statuses
    assert settings() == START
