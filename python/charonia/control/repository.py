"""The model repository: what is in it, and loading and unloading by request."""

from charonia.control.ports import IndexEntry, Models
from charonia.core.errors import UnavailableError, UnsupportedError
from charonia.core.text import shown

READY = "READY"


class Repository:
    """The index; loading and unloading by request are refused in every control mode so far."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def index(self, ready_only: bool = False) -> tuple[IndexEntry, ...]:
        """One entry a version; a model that was never loaded has one entry with its name only."""
        return tuple(entry for entry in self._models().index() if not ready_only or entry.state == READY)

    def load(self, name: str, repository: str = "") -> None:
        """Raises UnavailableError, or UnsupportedError when a repository is named."""
        self._refuse("load", name, repository)

    def unload(self, name: str, repository: str = "") -> None:
        """Raises as `load`."""
        self._refuse("unload", name, repository)

    def _refuse(self, action: str, name: str, repository: str) -> None:
        no_repository(repository)
        raise UnavailableError(
            f"can't {action} model '{shown(name)}': explicit model load / unload is not allowed, this version "
            "loads models only at the start and not yet by request, which --model-control-mode=explicit is for"
        )


def no_repository(repository: str) -> None:
    """Raises UnsupportedError when a request picks one of several repositories by name."""
    if repository:
        raise UnsupportedError(
            f"'repository_name' specification is not supported: leave it out instead of naming '{shown(repository)}', "
            "all repositories of the server are searched"
        )
