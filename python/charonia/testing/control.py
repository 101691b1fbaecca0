"""Loading and unloading for tests of those who ask for it."""

from collections.abc import Callable

from charonia.core.errors import CharoniaError
from charonia.core.overrides import LoadOverrides


class FakeControl:
    """A ModelControl that keeps what it is asked for as (action, name, argument).

    Attributes:
        error: raised instead, when there is one.
        before: called first, by the thread of the call.
    """

    def __init__(self) -> None:
        self.calls: list[tuple[str, str, LoadOverrides | bool]] = []
        self.error: CharoniaError | None = None
        self.before: Callable[[], object] = lambda: None

    def load(self, name: str, overrides: LoadOverrides) -> None:
        self._note("load", name, overrides)

    def unload(self, name: str, dependents: bool) -> None:
        self._note("unload", name, dependents)

    def _note(self, action: str, name: str, argument: LoadOverrides | bool) -> None:
        self.before()
        if self.error is not None:
            raise self.error
        self.calls.append((action, name, argument))
