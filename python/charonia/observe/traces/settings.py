"""The trace settings of the server and of its models. A model's own win; what it has not of its own follows the
server's, and that follows what the server was started with."""

import threading
from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from charonia.core.errors import InvalidArgumentError
from charonia.observe.traces.setting import FIELDS, Level, Mode, TraceSetting, TraceValues

WHOLE_SERVER = ""
"""In place of a model's name."""


@dataclass(frozen=True, slots=True)
class TraceChange:
    """Attributes:
    given: new values of fields of TraceValues.
    cleared: the fields that shall follow the fallback again.
    """

    given: Mapping[str, Any] = field(default_factory=dict)
    cleared: Set[str] = frozenset()


class TraceSettings:
    """Any thread may ask and change.

    Args:
        obstacle: why nothing can be traced whatever the settings are, "" if something can.
        on_change: told after each change with the settings that others have replaced.
    """

    def __init__(
        self,
        start: TraceValues,
        mode: Mode,
        obstacle: str = "",
        on_change: Callable[[list[TraceSetting]], None] = lambda replaced: None,
    ) -> None:
        self._mode = mode
        self._obstacle = obstacle
        self._on_change = on_change
        self._lock = threading.Lock()
        self._start = TraceSetting(start)
        self._server = TraceSetting(start, fault=self._fault(start))
        self._models: dict[str, TraceSetting] = {}

    def of(self, model: str) -> TraceSetting:
        """What counts for this model now."""
        return self._models.get(model, self._server)

    @property
    def trace_something(self) -> bool:
        return any(each.level and not self._hopeless(each) for each in (self._server, *self._models.values()))

    def update(self, model: str, change: TraceChange) -> None:
        """Change the settings of a model, or of the WHOLE_SERVER; those of models that follow it change with it.

        Raises:
            InvalidArgumentError: nothing could be traced by what comes of it, though the level is not OFF. Nothing is
                changed then.
        """
        replaced = []
        with self._lock:
            if model == WHOLE_SERVER:
                server = self._checked(self._made(self._server, self._start, change))
                replaced.append(self._server)
                self._server = server
                for name, own in self._models.items():
                    replaced.append(own)
                    self._models[name] = self._made(own, server, TraceChange())
            else:
                own_now = self._models.get(model)
                made = self._made(own_now, self._server, change)
                if made.specified:
                    self._models[model] = self._checked(made)
                else:
                    self._models.pop(model, None)
                if own_now is not None:
                    replaced.append(own_now)
        for each in replaced:
            each.retire()
        self._on_change(replaced)

    def all(self) -> list[TraceSetting]:
        with self._lock:
            return [self._server, *self._models.values()]

    def _made(self, current: TraceSetting | None, fallback: TraceSetting, change: TraceChange) -> TraceSetting:
        before = current.specified if current is not None else frozenset()
        specified = (before | frozenset(change.given)) - change.cleared
        sources = {name: change.given.get(name) for name in FIELDS}
        values = {}
        for name in FIELDS:
            if name not in specified:
                values[name] = getattr(fallback.values, name)
            elif name in change.given:
                values[name] = sources[name]
            else:
                assert current is not None
                values[name] = getattr(current.values, name)
        made = TraceValues(**values)
        return TraceSetting(made, specified, self._fault(made))

    def _fault(self, values: TraceValues) -> str:
        if not values.level:
            return "tracing is disabled"
        if not values.rate:
            return "sample rate must be non-zero: 'trace_rate' is 0"
        return self._obstacle

    def _hopeless(self, setting: TraceSetting) -> bool:
        """In OpenTelemetry's mode a rate of 0 traces the requests that bring a context."""
        return bool(setting.fault) and (self._mode is Mode.TRITON or bool(self._obstacle))

    def _checked(self, setting: TraceSetting) -> TraceSetting:
        if setting.level is Level.OFF:
            return setting
        fault = setting.fault or (
            "'trace_count' is 0: no trace is left to be taken" if not setting.values.count else ""
        )
        if fault:
            raise InvalidArgumentError(f"Attempting to set invalid trace setting: {fault}")
        return setting
