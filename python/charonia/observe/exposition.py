"""The Prometheus text format.

Written by us, because prometheus_client appends `_total` to the names of counters, and Triton's have no suffix.
"""

from collections.abc import Mapping, Sequence
from math import isinf, isnan

CONTENT_TYPE = "text/plain; charset=utf-8"


class Exposition:
    """Collects lines. Call `family` before the samples of a family, and each family once."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def family(self, name: str, kind: str, text: str) -> None:
        """`kind` is counter, gauge, summary or histogram; `text` says what the numbers are."""
        escaped = text.replace("\\", r"\\").replace("\n", r"\n")
        self._lines.append(f"# HELP {name} {escaped}")
        self._lines.append(f"# TYPE {name} {kind}")

    def sample(self, name: str, labels: str, value: float) -> None:
        """`labels` as from `label_text`, "" for none."""
        shown = f"{{{labels}}}" if labels else ""
        self._lines.append(f"{name}{shown} {number_text(value)}")

    def single(self, name: str, kind: str, text: str, value: float) -> None:
        """A family with one sample without labels."""
        self.family(name, kind, text)
        self.sample(name, "", value)

    def histogram(self, name: str, labels: str, bounds: Sequence[float], counts: Sequence[int], total: float) -> None:
        """`counts` by bucket, not cumulative, one more than `bounds`; `total` is the sum of all observations."""
        prefix = f"{labels}," if labels else ""
        seen = 0
        self.sample(f"{name}_count", labels, sum(counts))
        self.sample(f"{name}_sum", labels, total)
        for bound, count in zip((*bounds, float("inf")), counts, strict=True):
            seen += count
            self.sample(f"{name}_bucket", f'{prefix}le="{number_text(bound)}"', seen)

    def text(self) -> str:
        return "\n".join((*self._lines, ""))


def label_text(labels: Mapping[str, str]) -> str:
    """`a="x",b="y"`, by name, values escaped."""
    return ",".join(f'{name}="{_escape(labels[name])}"' for name in sorted(labels))


def number_text(value: float) -> str:
    """Whole numbers without a fraction, others with the fewest digits that give the same number back."""
    if isinstance(value, int):
        return str(value)
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "+Inf" if value > 0 else "-Inf"
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def _escape(value: str) -> str:
    return value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
