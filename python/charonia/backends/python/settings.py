"""What a model's parameters, and `--backend-config` for all models, say about how a Python model runs."""

from collections.abc import Callable
from typing import TypeVar

from charonia.backends.base import ModelContext
from charonia.backends.python.environment import PARAMETER
from charonia.backends.python.restart import RestartPolicy
from charonia.config.findings import ConfigError, Finding, Severity

EXECUTION = "execution"
FORCE_HOST = "FORCE_CPU_ONLY_INPUT_TENSORS"
_FORMS = ("isolated", "inline")
_Number = TypeVar("_Number", int, float)


def is_inline(context: ModelContext) -> bool:
    """Raises ConfigError for a form that does not exist."""
    form = _parameter(context, EXECUTION)
    if form is not None:
        if form not in _FORMS:
            raise _wrong(context, EXECUTION, f"must be one of {', '.join(_FORMS)}, got '{form}'")
        return form == "inline"
    form = context.backend_config.get(EXECUTION, "isolated")
    if form not in _FORMS:
        raise _wrong_for_all(context, EXECUTION, f"must be one of {', '.join(_FORMS)}, got '{form}'")
    return form == "inline"


def environment_path(context: ModelContext) -> str:
    """`EXECUTION_ENV_PATH`, "" for none. Raises ConfigError for one that an inline model can't run in."""
    value = _parameter(context, PARAMETER) or ""
    if value and is_inline(context):
        what = (
            f"'{value}' can't be used: an inline model runs in the server's own interpreter; leave one of the two out"
        )
        raise _wrong(context, PARAMETER, what)
    return value


def keeps_devices(context: ModelContext) -> bool:
    """Whether inputs stay where they are. Raises ConfigError for a value that is not "yes" or "no"."""
    value = _parameter(context, FORCE_HOST)
    if value not in (None, "yes", "no"):
        raise _wrong(context, FORCE_HOST, f"must be yes or no, got '{value}'")
    return value == "no"


def restart_policy(context: ModelContext) -> RestartPolicy:
    """Raises ConfigError for what is no number."""
    usual = RestartPolicy()
    limit = _number(context, "max-deaths", int, usual.limit)
    window_s = _number(context, "death-window-seconds", float, usual.window_s)
    return RestartPolicy(limit, window_s, usual.first_delay_s, usual.max_delay_s)


def wrong_settings(context: ModelContext) -> list[Finding]:
    """Each setting tried by itself; what is wrong for several of them is told once."""
    readers: tuple[Callable[[ModelContext], object], ...] = (is_inline, environment_path, keeps_devices, restart_policy)
    found: dict[Finding, None] = {}
    for read in readers:
        try:
            read(context)
        except ConfigError as error:
            found.update(dict.fromkeys(error.findings))
    return list(found)


def _parameter(context: ModelContext, name: str) -> str | None:
    """The model's own, None where it has none of this name."""
    parameters = context.config.parameters
    return parameters[name].string_value if name in parameters else None


def _number(context: ModelContext, name: str, read: Callable[[str], _Number], usual: _Number) -> _Number:
    text = context.backend_config.get(name)
    if text is None:
        return usual
    try:
        return read(text)
    except ValueError:
        what = "a whole number" if read is int else "a number"
        raise _wrong_for_all(context, name, f"must be {what}, got '{text}'") from None


def _wrong(context: ModelContext, name: str, what: str) -> ConfigError:
    path = f'parameters["{name}"]'
    message = f"model '{context.name}': parameter '{name}' {what}"
    return ConfigError([Finding(Severity.ERROR, path, context.places.find(path), message)])


def _wrong_for_all(context: ModelContext, name: str, what: str) -> ConfigError:
    """Its place is the launch line."""
    message = f"model '{context.name}': --backend-config={context.config.backend},{name} {what}"
    return ConfigError([Finding(Severity.ERROR, "", None, message)])
