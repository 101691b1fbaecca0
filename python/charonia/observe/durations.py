"""The smallest part of the statistics."""

from dataclasses import dataclass


@dataclass(slots=True)
class Duration:
    """How often, and how long in all."""

    count: int = 0
    ns: int = 0

    def add(self, count: int, ns: int) -> None:
        self.count += count
        self.ns += ns
