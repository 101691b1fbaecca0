"""`--trace-config`: from the settings of a launch line to what traces are made by, in Triton's words."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, field

from charonia.core.errors import InvalidArgumentError
from charonia.core.text import named_setting, whole_number
from charonia.observe.traces.setting import Level, Mode, TraceValues

MAX_COUNT = 2**31 - 1

_LEVELS = {
    **dict.fromkeys(("off", "false"), Level.OFF),
    **dict.fromkeys(("timestamps", "true", "on", "min", "max"), Level.TIMESTAMPS),
    "tensors": Level.TENSORS,
}
_GLOBAL = ("level", "rate", "count", "mode")
_OF_MODE = {
    Mode.TRITON: ("file", "log-frequency"),
    Mode.OPENTELEMETRY: (
        "url",
        "resource",
        "bsp_max_queue_size",
        "bsp_schedule_delay",
        "bsp_max_export_batch_size",
    ),
}
_BATCHING = {"bsp_max_queue_size": 2048, "bsp_schedule_delay": 5000, "bsp_max_export_batch_size": 512}
_START = TraceValues()
DEFAULT_URL = "http://localhost:4318/v1/traces"
_USER = re.compile(r"^([^/?#]*//)?[^/?#]*@")
DEFAULT_SERVICE = "triton-inference-server"


@dataclass(frozen=True, slots=True)
class Batching:
    """How spans are exported: the batch span processor of OpenTelemetry.

    Attributes:
        max_queue_size: spans that wait; more are dropped.
        schedule_delay_ms: how long they wait at most.
        max_export_batch_size: spans in one message.
    """

    max_queue_size: int
    schedule_delay_ms: int
    max_export_batch_size: int


_USUAL_BATCHING = Batching(*_BATCHING.values())


@dataclass(frozen=True, slots=True)
class TraceConfig:
    """What a server traces from its start on.

    Attributes:
        file: of Triton's mode, "" for none.
        url: of the collector.
        resource: attributes of the server in all its spans.
        shown: settings of OpenTelemetry's mode as `GET /v2/trace/setting` has them, in order.
    """

    values: TraceValues = field(default_factory=TraceValues)
    mode: Mode = Mode.TRITON
    file: str = ""
    url: str = DEFAULT_URL
    resource: Mapping[str, str] = field(default_factory=dict)
    batching: Batching = _USUAL_BATCHING
    shown: Mapping[str, str] = field(default_factory=dict)


def parse_trace_config(settings: Sequence[str], environment: Mapping[str, str] = os.environ) -> TraceConfig:
    """Read settings as `--trace-config` has them: "rate=100", "triton,file=trace.json".

    The last value of a setting counts; levels add up, unless one of them is OFF; resources add up. Those of the mode
    that is not chosen are checked and have no effect.

    Raises:
        InvalidArgumentError: no such setting, or a value that it can't have.
    """
    given = _Given()
    for text in settings:
        given.take(*_split(text))
    batching = _USUAL_BATCHING
    if given.mode is Mode.OPENTELEMETRY:
        batching = _batching(given.numbers, environment)
        given.shown |= dict(zip(_BATCHING, map(str, astuple(batching)), strict=True))
    numbers = given.numbers
    return TraceConfig(
        TraceValues(
            _joined(given.levels),
            numbers.get("rate", _START.rate),
            numbers.get("count", _START.count),
            numbers.get("log-frequency", _START.log_frequency),
        ),
        given.mode,
        given.texts.get("file", ""),
        given.texts.get("url", DEFAULT_URL),
        given.resource,
        batching,
        given.shown,
    )


@dataclass(slots=True)
class _Given:
    """What the settings of a launch line say, one after the other."""

    levels: list[Level] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    resource: dict[str, str] = field(default_factory=dict)
    shown: dict[str, str] = field(default_factory=dict)
    mode: Mode = Mode.TRITON

    def take(self, of: Mode | None, key: str, value: str) -> None:
        """One more, of a mode or, for None, of all."""
        if of is Mode.OPENTELEMETRY:
            self.shown[key] = without_secret(value) if key == "url" else value
        if key == "level":
            self.levels.append(_level(value))
        elif key == "mode":
            self.mode = _mode(value, "--trace-config mode")
        elif key == "resource":
            name, equals, worth = value.partition("=")
            if not (equals and name):
                raise _bad(of, key, f"expected resource=<name>=<value>, got '{value}'")
            self.resource[name] = worth
        elif key in ("file", "url"):
            self.texts[key] = value
        else:
            self.numbers[key] = _number(of, key, value)


def without_secret(url: str) -> str:
    """With dots in place of a user and password: it is logged, and told to every client."""
    return _USER.sub(r"\1...@", url)


def _split(text: str) -> tuple[Mode | None, str, str]:
    """(the mode that it is of, None for all; key; value)."""
    found = named_setting(text)
    if found is None:
        raise InvalidArgumentError(
            f"--trace-config option format is '<trace mode>,<setting>=<value>' or '<setting>=<value>', got '{text}'"
        )
    name, key, value = found
    of = _mode(name, "--trace-config") if name else None
    known = _OF_MODE[of] if of is not None else _GLOBAL
    if key not in known:
        whose = f"of mode '{of}'" if of is not None else "for every mode"
        raise InvalidArgumentError(f"--trace-config={text}: the settings {whose} are {', '.join(known)}; got '{key}'")
    return of, key, value


def _mode(text: str, where: str) -> Mode:
    try:
        return Mode(text.lower())
    except ValueError:
        known = " and ".join(f'"{each}"' for each in Mode)
        raise InvalidArgumentError(
            f"{where}: invalid value for trace mode option: '{text}'. Available options are {known}"
        ) from None


def _level(text: str) -> Level:
    try:
        return _LEVELS[text.lower()]
    except KeyError:
        raise _bad(
            None, "level", f"invalid value for trace level option: '{text}', expected OFF, TIMESTAMPS or TENSORS"
        ) from None


def _joined(levels: Sequence[Level]) -> Level:
    joined = Level.OFF
    for level in levels:
        joined |= level
    return Level.OFF if Level.OFF in [each for each in levels if not each] else joined


def _number(of: Mode | None, key: str, text: str) -> int:
    least = -1 if key == "count" else 0
    value = whole_number(text)
    if value is None:
        raise _bad(of, key, f"expected a whole number, got '{text}'")
    if not least <= value <= MAX_COUNT:
        raise _bad(of, key, f"expected a number from {least} to {MAX_COUNT}, got {text}")
    return value


def _batching(numbers: Mapping[str, int], environment: Mapping[str, str]) -> Batching:
    values = {}
    for key, default in _BATCHING.items():
        variable = f"OTEL_{key.upper()}"
        if key in numbers:
            values[key] = numbers[key]
        elif environment.get(variable):
            values[key] = _of_environment(variable, environment[variable])
        else:
            values[key] = default
    batching = Batching(*values.values())
    if not (batching.max_queue_size and batching.max_export_batch_size):
        raise InvalidArgumentError(
            "--trace-config opentelemetry: bsp_max_queue_size and bsp_max_export_batch_size must be above 0, got "
            f"{batching.max_queue_size} and {batching.max_export_batch_size}"
        )
    return batching


def _of_environment(variable: str, text: str) -> int:
    value = whole_number(text)
    if value is None or not 0 <= value <= MAX_COUNT:
        raise InvalidArgumentError(f"Bad option: \"{variable}\": expected a whole number, got '{text}'")
    return value


def _bad(of: Mode | None, key: str, why: str) -> InvalidArgumentError:
    name = f"{of},{key}" if of is not None else key
    return InvalidArgumentError(f'Bad option: "--trace-config {name}": {why}')
