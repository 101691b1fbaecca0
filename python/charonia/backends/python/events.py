"""What models say to the server beside their answers: log messages, metrics of their own, loading other models."""

import threading
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from charonia.backends.python.child import wire
from charonia.backends.python.outbox import Outbox
from charonia.core.errors import CharoniaError, InvalidArgumentError, UnavailableError
from charonia.core.log import Log, LogLevel
from charonia.core.overrides import LoadOverrides
from charonia.core.protocols import OtherModels
from charonia.observe.custom_metrics import CustomFamily, CustomMetric, CustomMetrics, MetricKind

# The thread that listens to all processes can't wait for these.
_LONG = ("model.load", "model.unload", "model.ready")


class ModelMetrics:
    """The metrics that one model instance holds, and their families, by key; they go with it."""

    def __init__(self, metrics: CustomMetrics) -> None:
        self._metrics = metrics
        self._families: dict[int, CustomFamily] = {}
        self._held: dict[int, CustomMetric] = {}
        self._keys = count(1)

    def family(self, name: str, description: str, kind: str) -> int:
        """Raises InvalidArgumentError: the name is not allowed, or another kind has it."""
        key = next(self._keys)
        self._families[key] = self._metrics.family(name, description, MetricKind(kind))
        return key

    def new(self, family: int, labels: dict[str, str], buckets: Sequence[float] | None) -> int:
        """Make a metric; the key by which it is known from now on."""
        held = self._families.get(family)
        if held is None:
            raise InvalidArgumentError("this metric family has been removed")
        metric = held.metric(labels, buckets)
        key = next(self._keys)
        self._held[key] = metric
        return key

    def get(self, key: int) -> CustomMetric:
        metric = self._held.get(key)
        if metric is None:
            raise InvalidArgumentError("this metric has been removed")
        return metric

    def remove(self, key: int) -> None:
        """Of a metric or of a family; the second time does nothing."""
        gone = self._held.pop(key, None) or self._families.pop(key, None)
        if gone is not None:
            gone.remove()

    def close(self) -> None:
        for key in (*self._held, *self._families):
            self.remove(key)


class ModelRequests:
    """What a model may ask about others. Loading takes long.

    Args:
        caller: the model that asks.
        models: None where nothing is served.
    """

    def __init__(self, caller: str, models: OtherModels | None) -> None:
        self._caller = caller
        self._models = models

    def load(self, name: str, config_json: str | None, files: Mapping[str, bytes]) -> None:
        self._served("load", name).load(name, LoadOverrides(config_json, files))

    def unload(self, name: str, dependents: bool) -> None:
        self._served("unload", name).unload(name, dependents)

    def ready(self, name: str, version: int) -> bool:
        return self._models is not None and self._models.is_ready(name, version)

    def _served(self, action: str, name: str) -> OtherModels:
        if self._models is None:
            raise UnavailableError(f"model '{self._caller}' can't {action} '{name}': nothing is served here")
        return self._models


class ModelEvents:
    """Carries out what one model instance says; its process or its inline runtime calls in."""

    def __init__(self, log: Log, metrics: CustomMetrics, models: OtherModels | None = None, caller: str = "") -> None:
        self._log = log
        self._metrics = ModelMetrics(metrics)
        requests = ModelRequests(caller, models)
        self._operations: dict[str, Callable[..., Any]] = {
            "settle": lambda: None,
            "metric.family": self._metrics.family,
            "metric.new": self._metrics.new,
            "metric.increment": lambda key, value: self._metrics.get(key).increment(value),
            "metric.set": lambda key, value: self._metrics.get(key).set(value),
            "metric.observe": lambda key, value: self._metrics.get(key).observe(value),
            "metric.value": lambda key: self._metrics.get(key).value(),
            "metric.remove": self._metrics.remove,
            "model.load": requests.load,
            "model.unload": requests.unload,
            "model.ready": requests.ready,
        }

    def log(self, level: str, message: str, file: str, line: int) -> None:
        self._log.record(LogLevel(level), message, file, line)

    def call(self, operation: str, arguments: Sequence[Any]) -> Any:
        """Carry out one operation. Raises CharoniaError with the reason."""
        handler = self._operations.get(operation)
        if handler is None:
            raise InvalidArgumentError(f"unknown operation '{operation}'")
        return handler(*arguments)

    def casts(self, casts: Sequence[Any]) -> None:
        """Carry out operations that nobody waits for; a failure is logged."""
        for operation, arguments in casts:
            try:
                self.call(operation, arguments)
            except Exception as error:
                self._log.error(f"{operation} failed: {error}")

    def frame(self, outbox: Outbox, frame: wire.Frame) -> None:
        """One frame of the events channel."""
        if frame.kind == wire.LOG:
            self.log(*frame.meta)
        elif frame.kind == wire.CAST:
            self.casts(frame.meta)
        elif frame.kind == wire.CALL and frame.meta[0] in _LONG:
            threading.Thread(target=self._answer, args=(outbox, frame), name=frame.meta[0], daemon=True).start()
        elif frame.kind == wire.CALL:
            self._answer(outbox, frame)

    def close(self) -> None:
        """Give all metrics back."""
        self._metrics.close()

    def _answer(self, outbox: Outbox, frame: wire.Frame) -> None:
        operation, arguments = frame.meta
        try:
            result = self.call(operation, arguments)
        except Exception as error:  # whatever it is, the model's thread waits for an answer
            text = str(error) if isinstance(error, CharoniaError) else f"{type(error).__name__}: {error}"
            outbox.post(wire.FAILED, frame.correlation, text)
        else:
            outbox.post(wire.DONE, frame.correlation, result)
