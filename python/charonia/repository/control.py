"""Loading and unloading by request: what explicit control does, and the refusals of the other modes."""

from charonia.core.errors import UnavailableError
from charonia.core.overrides import LoadOverrides
from charonia.core.text import shown


class RepositoryControl:
    """See `control.ports.ModelControl`."""

    def __init__(self, mode: str) -> None:
        self._mode = mode

    def load(self, name: str, overrides: LoadOverrides) -> None:
        self._refuse_unless_explicit("load", name)

    def unload(self, name: str, dependents: bool) -> None:
        self._refuse_unless_explicit("unload", name)

    def _refuse_unless_explicit(self, action: str, name: str) -> None:
        raise UnavailableError(
            f"can't {action} model '{shown(name)}': explicit model load / unload is not allowed if polling is enabled"
        )
