"""How far the reader of a run's responses is behind, and the steps between: what a decoupled step looks at."""

from collections.abc import Callable

from charonia.core.request import Flow
from charonia.pipelines.graph import StepPlan
from charonia.pipelines.strand import Strand

Question = Callable[[], bool]


class StreamFlow:
    """The Flow of a decoupled step's request: of the ensemble's request, and of what is between the two.

    Args:
        is_wanted: whether others wait for the request's place among those of its step. They may be the very ones whose
            answers this ensemble, or one around it, waits for first; so the request goes on until it ends, as long as
            the reader takes what comes.
    """

    __slots__ = ("_is_wanted", "_outer", "_run", "_step", "_strand")

    def __init__(self, strand: Strand, step: StepPlan, outer: Flow | None, is_wanted: Question) -> None:
        self._run = strand.run
        self._strand = strand
        self._step = step
        self._outer = outer
        self._is_wanted = is_wanted

    def has_room(self, is_held: bool = False) -> bool:
        """`is_held`: who asks has a place further inside that others wait for."""
        if self._run.ended:
            return True
        if not (is_held or self._has_room_here()):
            return False
        if isinstance(self._outer, StreamFlow):
            return self._outer.has_room(is_held or self._is_wanted())
        return self._outer is None or self._outer.has_room()

    def on_room(self, listener: Callable[[], None], is_held: Question = lambda: False) -> None:
        if self._run.on_room(
            lambda: is_held() or self._has_room_here(),
            lambda: self.on_room(listener, is_held),
        ):
            return
        if self._run.ended or self._outer is None:
            listener()
        elif isinstance(self._outer, StreamFlow):
            self._outer.on_room(listener, lambda: is_held() or self._is_wanted())
        else:
            self._outer.on_room(listener)

    def wake(self) -> None:
        """The place is wanted now: who waits for room here, or further out, looks again."""
        flow: Flow | None = self
        while isinstance(flow, StreamFlow):
            for listener in flow._run.listeners():
                listener()
            flow = flow._outer

    def _has_room_here(self) -> bool:
        return self._run.has_room(self._strand, self._step, self._is_wanted())
