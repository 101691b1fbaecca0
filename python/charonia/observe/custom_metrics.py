"""Metrics that models define themselves (`MetricFamily` of the Python backend). One `CustomMetrics` for each server.

A family is known by its name: asking for it again gives the same one, with the first description. The same labels
in one family are the same metric, however many handles there are; it disappears with its last handle, and a family
with the last of those who asked for it.
"""

import re
import threading
from bisect import bisect_left
from collections.abc import Callable, Collection, Mapping, Sequence
from enum import StrEnum
from itertools import pairwise

from charonia.core.errors import InvalidArgumentError, UnsupportedError
from charonia.observe.exposition import Exposition, label_text

_FAMILY_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL_NAME = re.compile(r"(?!__)[a-zA-Z_][a-zA-Z0-9_]*")  # Prometheus keeps what begins with __ for itself
_SUFFIXES = ("", "_bucket", "_count", "_sum", "_total")  # of samples, by kind of family and by who reads them


class MetricKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


class _Cell:
    """The numbers behind all handles of one metric. `counts` by bucket, not cumulative, for histograms only."""

    __slots__ = ("bounds", "counts", "handles", "labels", "value")

    def __init__(self, labels: Mapping[str, str], bounds: tuple[float, ...]) -> None:
        self.labels = labels
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.value = 0.0
        self.handles = 0


Watch = Callable[[Sequence[tuple[Mapping[str, str], float]]], None]
"""Takes (labels, value) of each metric of a family."""


class CustomMetric:
    """A handle to one metric; any thread may use it. `remove` gives it back, further use is an InvalidArgumentError."""

    __slots__ = ("_cell", "_family", "_labels", "_open")

    def __init__(self, family: "CustomFamily", labels: str, cell: _Cell) -> None:
        self._family = family
        self._labels = labels
        self._cell = cell
        self._open = True

    def increment(self, amount: float) -> None:
        """Counters take amounts >= 0, gauges any. Raises UnsupportedError for histograms."""
        self._allow("increment", MetricKind.COUNTER, MetricKind.GAUGE)
        if self._family.kind == MetricKind.COUNTER and not amount >= 0:
            raise InvalidArgumentError(
                f"counter '{self._family.name}' can only grow, it can't be incremented by {amount}"
            )
        with self._family.lock:
            self._cell.value += amount
        self._family.changed()

    def set(self, value: float) -> None:
        """Gauges only."""
        self._allow("set", MetricKind.GAUGE)
        with self._family.lock:
            self._cell.value = float(value)
        self._family.changed()

    def observe(self, value: float) -> None:
        """Histograms only."""
        self._allow("observe", MetricKind.HISTOGRAM)
        with self._family.lock:
            self._cell.counts[bisect_left(self._cell.bounds, value)] += 1
            self._cell.value += value

    def value(self) -> float:
        """The present value of a counter or gauge. Raises UnsupportedError for histograms."""
        self._allow("value", MetricKind.COUNTER, MetricKind.GAUGE)
        return self._cell.value

    def remove(self) -> None:
        """Give the handle back; the second time does nothing."""
        if self._open:
            self._open = False
            self._family.release(self._labels, self._cell)

    def _allow(self, operation: str, *kinds: MetricKind) -> None:
        if not self._open:
            raise InvalidArgumentError(f"metric '{self._family.name}' {{{self._labels}}} has been removed")
        if self._family.kind not in kinds:
            raise UnsupportedError(
                f"'{operation}' is not for metrics of kind {self._family.kind}, which '{self._family.name}' is"
            )


class CustomFamily:
    """Metrics of one name and kind that differ in their labels. Made by `CustomMetrics.family`.

    Args:
        forget: called, under `lock`, when nobody holds the family any more.
        watch: told all counters and gauges, with their labels, after each change of one.
    """

    def __init__(
        self,
        name: str,
        description: str,
        kind: MetricKind,
        lock: threading.Lock,
        forget: Callable[[str], None],
        watch: Watch | None = None,
    ) -> None:
        self.name = name
        self.description = description
        self.kind = kind
        self.lock = lock
        self.holds = 0  # changed under the lock
        self._forget = forget
        self._watch = watch
        self._telling = threading.Lock()
        self._cells: dict[str, _Cell] = {}

    def metric(self, labels: Mapping[str, str], buckets: Sequence[float] | None = None) -> CustomMetric:
        """A handle to the metric with these labels.

        Args:
            buckets: upper bounds of a histogram, ascending, without +Inf; None for the other kinds.

        Raises:
            InvalidArgumentError: a label name or the buckets are wrong.
        """
        bounds = self._bounds(buckets)
        self._check(labels)
        key = label_text(labels)
        with self.lock:
            cell = self._cells.get(key)
            if cell is None:
                cell = self._cells[key] = _Cell(dict(labels), bounds)
            cell.handles += 1
            self.holds += 1
        return CustomMetric(self, key, cell)

    def release(self, labels: str, cell: _Cell) -> None:
        """Called by a handle that is given back."""
        with self.lock:
            cell.handles -= 1
            if not cell.handles:
                del self._cells[labels]
            self._let_go()
        self.changed()

    def changed(self) -> None:
        """Called, without the lock, when a value is another."""
        if self._watch is None:
            return
        with self._telling:  # so that an older state is not told after a newer one
            with self.lock:
                samples = [(cell.labels, cell.value) for cell in self._cells.values()]
            self._watch(samples)

    def remove(self) -> None:
        """Undo one call of `CustomMetrics.family`."""
        with self.lock:
            self._let_go()

    def _let_go(self) -> None:
        self.holds -= 1
        if not self.holds:
            self._forget(self.name)

    def write(self, out: Exposition) -> None:
        """Nothing while the family has no metric."""
        with self.lock:
            cells = [(labels, cell.bounds, tuple(cell.counts), cell.value) for labels, cell in self._cells.items()]
        if not cells:
            return
        out.family(self.name, self.kind, self.description)
        for labels, bounds, counts, value in cells:
            if self.kind == MetricKind.HISTOGRAM:
                out.histogram(self.name, labels, bounds, counts, value)
            else:
                out.sample(self.name, labels, value)

    def _bounds(self, buckets: Sequence[float] | None) -> tuple[float, ...]:
        if self.kind != MetricKind.HISTOGRAM:
            if buckets is not None:
                raise InvalidArgumentError(f"metric family '{self.name}' is a {self.kind} and takes no buckets")
            return ()
        if buckets is None:
            raise InvalidArgumentError(f"metrics of histogram family '{self.name}' need buckets")
        bounds = tuple(float(bound) for bound in buckets)
        if any(not low < high for low, high in pairwise(bounds)):
            raise InvalidArgumentError(
                f"buckets of histogram family '{self.name}' must be ascending without repetition, got {list(bounds)}"
            )
        return bounds

    def _check(self, labels: Mapping[str, str]) -> None:
        for name in labels:
            reserved = name == "le" and self.kind == MetricKind.HISTOGRAM
            if reserved or not _LABEL_NAME.fullmatch(name):
                raise InvalidArgumentError(f"metric family '{self.name}' can't have a label named '{name}'")


class CustomMetrics:
    """All families that the models of one server have defined. `taken` are names that the server itself uses."""

    def __init__(self, taken: Collection[str] = ()) -> None:
        self._lock = threading.Lock()
        self._taken = frozenset(f"{name}{suffix}" for name in taken for suffix in _SUFFIXES)
        self._families: dict[str, CustomFamily] = {}
        self._watches: dict[str, Watch] = {}

    def watch(self, name: str, watch: Watch) -> None:
        """Have `watch` told of each change in the family of this name, when models will have made it."""
        self._watches[name] = watch

    def family(self, name: str, description: str, kind: MetricKind) -> CustomFamily:
        """The family of this name, made if there is none. The caller gives it back by `remove`.

        Raises:
            InvalidArgumentError: the name is not allowed, the server's own, or a family of another kind has it.
        """
        if not _FAMILY_NAME.fullmatch(name):
            raise InvalidArgumentError(f"'{name}' can't be the name of a metric family: letters, digits, _ and : only")
        if name in self._taken:
            raise InvalidArgumentError(f"metric family '{name}' is one of the server's own")
        with self._lock:
            family = self._families.get(name) or CustomFamily(
                name, description, kind, self._lock, self._forget, self._watches.get(name)
            )
            if family.kind != kind:
                raise InvalidArgumentError(
                    f"metric family '{name}' exists already, as a {family.kind} and not a {kind}"
                )
            self._families[name] = family
            family.holds += 1
        return family

    def _forget(self, name: str) -> None:
        del self._families[name]

    def write(self, out: Exposition) -> None:
        with self._lock:
            families = list(self._families.values())
        for family in families:
            family.write(out)
