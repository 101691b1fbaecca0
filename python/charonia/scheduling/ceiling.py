"""Clients who wait for their answers before they ask again: once all of them wait, there is nobody to wait for.

How many there are nobody says. It shows when batches are released again and again with as many rows under way as the
last time, and nobody came although, by the usual rate, several should have.
"""

# A Poisson stream as busy as that stays silent so long once in 1,100 times.
_SURE = 7.0


class Ceiling:
    """The number of rows that are under way at most. Used under its owner's lock.

    Attributes:
        rows: None while none is known.
    """

    def __init__(self) -> None:
        self.rows: int | None = None
        self._suspected = 0
        self._silence = 0.0

    def saw(self, under_way: int) -> None:
        """So many rows wait or are executed now. More than there should be at most: the ceiling is none."""
        if self.rows is not None and under_way > self.rows:
            self.rows = None
            self._silence = 0.0

    def waited(self, under_way: int, missed: float) -> None:
        """A batch was released after a delay.

        Args:
            under_way: the rows that wait or are executed, those of the batch included.
            missed: how many requests would have come at the usual rate since the last one came.
        """
        if under_way != self._suspected:
            self._suspected, self._silence = under_way, 0.0
        self._silence += missed
        if self._silence >= _SURE:
            self.rows = under_way
