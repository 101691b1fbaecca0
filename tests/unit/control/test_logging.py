import pytest

from charonia.control.logging import LogChange
from charonia.core.errors import InvalidArgumentError, NotFoundError, UnsupportedError
from charonia.observe.log import LevelChanges, LogLevels, LogSettings


def test_settings_change_one_by_one(handlers):
    logging = handlers.logging
    assert logging.settings() == LogSettings()
    logging.update(LogChange(LevelChanges(info=False)))
    logging.update(LogChange(LevelChanges(verbose_level=2), format="json"))
    assert logging.update(LogChange()) == LogSettings(info=False, verbose_level=2, format="json")


def test_what_the_server_leaves_null_stays(handlers):
    handlers.logging.update(LogChange(LevelChanges(info=False)))
    assert not handlers.logging.update(LogChange(cleared=frozenset({"info"}))).info


@pytest.mark.parametrize(
    ("change", "error", "words"),
    [
        ({"file": "other.log"}, UnsupportedError, "log file location can not be updated through network protocol"),
        ({"file": ""}, UnsupportedError, "log file location"),
        ({"format": "iso8601"}, InvalidArgumentError, "invalid argument for log_format, got: 'iso8601'"),
        ({"format": ""}, InvalidArgumentError, "expected one of default, ISO8601, json"),
        ({"levels": LevelChanges(verbose_level=2**31)}, InvalidArgumentError, "log_verbose_level"),
    ],
)
def test_what_is_refused_changes_nothing(handlers, change, error, words):
    with pytest.raises(error) as caught:
        handlers.logging.update(LogChange(**{"levels": LevelChanges(info=False), **change}))
    assert words in str(caught.value)
    assert handlers.logging.settings() == LogSettings()


def test_levels_of_a_model(handlers):
    logging = handlers.logging
    assert logging.update_model("id", LogChange(LevelChanges(verbose_level=1))) == LogLevels(verbose_level=1)
    logging.update_model("id", LogChange(LevelChanges(info=False)))
    assert logging.of_model("id") == LogLevels(info=False, verbose_level=1)
    assert logging.of_model("addsub") == logging.settings()
    assert logging.update_model("id", LogChange(cleared=frozenset({"verbose_level"}))) == LogLevels(info=False)
    assert logging.settings() == LogSettings()


def test_a_model_that_is_not_loaded_may_have_levels(handlers):
    for name in ("shelf", "bad", "late"):
        assert handlers.logging.update_model(name, LogChange(LevelChanges(verbose_level=1))).verbose_level == 1


def test_what_a_model_can_not_have(handlers):
    for change in ({"format": "json"}, {"file": "x"}):
        with pytest.raises(InvalidArgumentError, match="settings of the whole server"):
            handlers.logging.update_model("id", LogChange(**change))
    with pytest.raises(InvalidArgumentError, match="log_verbose_level"):
        handlers.logging.update_model("id", LogChange(LevelChanges(verbose_level=2**40)))
    with pytest.raises(NotFoundError, match="'nope' is not found"):
        handlers.logging.of_model("nope")
    with pytest.raises(NotFoundError, match="'nope' is not found"):
        handlers.logging.update_model("nope", LogChange())
