"""How far the reader of a run's responses is behind, and the steps between: what a decoupled step looks at."""

from collections.abc import Callable

from charonia.core.request import Flow
from charonia.pipelines.run import Run

# As many responses may be on their way through later steps: enough to keep these busy, whatever they batch.
OPEN_STRANDS = 64


class StreamFlow:
    """The Flow of a decoupled step's request: of the ensemble's request, and of what is between the two."""

    __slots__ = ("_outer", "_run")

    def __init__(self, run: Run, outer: Flow | None) -> None:
        self._run = run
        self._outer = outer

    def has_room(self) -> bool:
        if self._run.ended:
            return True
        return self._run.has_room(OPEN_STRANDS) and (self._outer is None or self._outer.has_room())

    def on_room(self, listener: Callable[[], None]) -> None:
        if self._run.on_room(OPEN_STRANDS, lambda: self.on_room(listener)):
            return
        if self._run.ended or self._outer is None:
            listener()
        else:
            self._outer.on_room(listener)
