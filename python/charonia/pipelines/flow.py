"""How far the reader of a run's responses is behind, and the steps between: what a decoupled step looks at."""

from collections.abc import Callable

from charonia.core.request import Flow
from charonia.pipelines.strand import Strand


class StreamFlow:
    """The Flow of a decoupled step's request: of the ensemble's request, and of what is between the two."""

    __slots__ = ("_outer", "_region", "_run", "_strand")

    def __init__(self, strand: Strand, region: int, outer: Flow | None) -> None:
        self._run = strand.run
        self._strand = strand
        self._region = region
        self._outer = outer

    def has_room(self) -> bool:
        if self._run.ended:
            return True
        return self._has_room_here() and (self._outer is None or self._outer.has_room())

    def _has_room_here(self) -> bool:
        return self._run.has_room(self._strand, self._region)

    def on_room(self, listener: Callable[[], None]) -> None:
        if self._run.on_room(self._has_room_here, lambda: self.on_room(listener)):
            return
        if self._run.ended or self._outer is None:
            listener()
        else:
            self._outer.on_room(listener)
