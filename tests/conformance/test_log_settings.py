"""Log settings by the real clients."""

import pytest
from tritonclient.utils import InferenceServerException

DEFAULTS = {
    "log_file": "",
    "log_info": False,  # as embedded servers begin
    "log_warning": True,
    "log_error": True,
    "log_verbose_level": 0,
    "log_format": "default",
}


def settings_of(client, method, *args):
    answer = client.ask(method, *args)
    if not client.is_grpc:
        return answer
    return {name: next(iter(value.values())) for name, value in answer["settings"].items()}


@pytest.fixture
def settings(client):
    def ask(**changes):
        return (
            settings_of(client, "update_log_settings", changes) if changes else settings_of(client, "get_log_settings")
        )

    yield ask
    ask(**{name: value for name, value in DEFAULTS.items() if name != "log_file"})


def test_settings_are_read_and_changed(settings):
    assert settings() == DEFAULTS
    changed = {"log_info": True, "log_error": False, "log_verbose_level": 2, "log_format": "ISO8601"}
    assert settings(**changed) == settings() == DEFAULTS | changed


def test_the_file_stays(client, settings):
    with pytest.raises(
        InferenceServerException, match="log file location can not be updated through network protocol"
    ) as caught:
        settings(log_file="other.log")
    assert caught.value.status() in ("501", "StatusCode.UNIMPLEMENTED")
    assert settings() == DEFAULTS


@pytest.mark.parametrize("change", [{"log_format": "fancy"}, {"log_verbose_level": 2**31}])
def test_a_wrong_setting_is_named(client, settings, change):
    with pytest.raises(InferenceServerException, match=next(iter(change))) as caught:
        settings(**change)
    assert caught.value.status() in ("400", "StatusCode.INVALID_ARGUMENT")
    assert settings() == DEFAULTS
