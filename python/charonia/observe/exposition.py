"""The Prometheus text format.

Written by us, because prometheus_client appends `_total` to the names of counters, and Triton's have no suffix.
"""

from collections.abc import Mapping, Sequence
from itertools import accumulate
from math import inf, isinf, isnan

CONTENT_TYPE = "text/plain; charset=utf-8"


class Exposition:
    """Collects lines. Call `family` before the samples of a family, and each family once; without samples it is left
    out."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._heading: tuple[str, ...] = ()

    def family(self, name: str, kind: str, text: str) -> None:
        """`kind` is counter, gauge, summary or histogram; `text` says what the numbers are."""
        escaped = text.replace("\\", r"\\").replace("\n", r"\n")
        self._heading = (f"# HELP {name} {escaped}", f"# TYPE {name} {kind}")

    def sample(self, name: str, labels: str, value: float) -> None:
        """`labels` as from `label_text`, "" for none."""
        if self._heading:
            self._lines += self._heading
            self._heading = ()
        shown = f"{{{labels}}}" if labels else ""
        self._lines.append(f"{name}{shown} {number_text(value)}")

    def single(self, name: str, kind: str, text: str, value: float) -> None:
        """A family with one sample without labels."""
        self.family(name, kind, text)
        self.sample(name, "", value)

    def histogram(self, name: str, labels: str, bounds: Sequence[float], counts: Sequence[int], total: float) -> None:
        """`counts` by bucket, not cumulative, one more than `bounds`; `total` is the sum of all observations."""
        prefix = f"{name}_bucket{{{labels}," if labels else f"{name}_bucket{{"
        self.sample(f"{name}_count", labels, sum(counts))
        self.sample(f"{name}_sum", labels, total)
        self._lines += [
            f'{prefix}le="{number_text(bound)}"}} {seen}'
            for bound, seen in zip((*bounds, inf), accumulate(counts), strict=True)
        ]

    def summary(
        self, name: str, labels: str, quantiles: Sequence[float], values: Sequence[float], count: int, total: float
    ) -> None:
        """`values` at `quantiles`; `count` and `total` are number and sum of all observations."""
        prefix = f"{labels}," if labels else ""
        self.sample(f"{name}_count", labels, count)
        self.sample(f"{name}_sum", labels, total)
        for quantile, value in zip(quantiles, values, strict=True):
            self.sample(name, f'{prefix}quantile="{number_text(quantile)}"', value)

    def text(self) -> str:
        """All of it, as UTF-8 can carry it: half of a surrogate pair, as file names may have them, becomes `?`."""
        text = "\n".join((*self._lines, ""))
        return text if text.isascii() else text.encode("utf-8", "replace").decode()


def label_text(labels: Mapping[str, str]) -> str:
    """`a="x",b="y"`, by name, values escaped."""
    return ",".join(f'{name}="{_escape(labels[name])}"' for name in sorted(labels))


def number_text(value: float) -> str:
    """Whole numbers without a fraction, others with the fewest digits that give the same number back.

    No number is `Nan`, as Triton spells it.
    """
    if isinstance(value, int):
        return str(value)
    if isnan(value):
        return "Nan"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
