"""How long a model takes for a batch, by its rows: learnt from what was executed, later batches counting for more."""

from copy import copy

# What a batch counts for after each further one: 0.95 ** 20 is about a third, so some twenty batches are remembered.
_KEPT = 0.95
# A batch that took longer than so many times what was expected was held up by something else, and counts as that.
_MOST_TIMES = 3.0
# Before so many batches, nothing is known about what is usual.
_KNOWN_AFTER = 8
# How much the first guess (time grows as rows do) counts beside what was seen, in squared rows of one batch.
_GUESS_WEIGHT = 0.25


class ExecutionTimes:
    """A straight line through the executions, by least squares: `base_ns + row_ns * rows`, neither below 0.

    Where all batches have had the same size nothing tells what a larger one takes; then time is taken to grow as rows
    do, which promises too little of batching, never too much.
    """

    def __init__(self) -> None:
        self.count = 0
        self.base_ns = 0.0
        self.row_ns = 0.0
        self._weight = self._rows = self._ns = self._rows_rows = self._rows_ns = 0.0

    def expected_ns(self, rows: int) -> float:
        """What a batch of so many rows takes; 0 before there was any."""
        return self.base_ns + self.row_ns * rows

    def copy(self) -> "ExecutionTimes":
        return copy(self)

    def add(self, rows: int, took_ns: int) -> None:
        """A batch was executed."""
        if self.count >= _KNOWN_AFTER:
            took_ns = min(took_ns, int(_MOST_TIMES * self.expected_ns(rows)))
        self.count += 1
        self._weight = self._weight * _KEPT + 1
        self._rows = self._rows * _KEPT + rows
        self._ns = self._ns * _KEPT + took_ns
        self._rows_rows = self._rows_rows * _KEPT + rows * rows
        self._rows_ns = self._rows_ns * _KEPT + rows * took_ns
        self._fit()

    def _fit(self) -> None:
        mean_rows, mean_ns = self._rows / self._weight, self._ns / self._weight
        spread = max(0.0, self._rows_rows / self._weight - mean_rows**2)
        together = self._rows_ns / self._weight - mean_rows * mean_ns
        guess = mean_ns / mean_rows
        row_ns = (together + _GUESS_WEIGHT * guess) / (spread + _GUESS_WEIGHT)
        self.row_ns = min(max(0.0, row_ns), guess)
        self.base_ns = mean_ns - self.row_ns * mean_rows
