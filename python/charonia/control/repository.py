"""The model repository: what is in it, and loading and unloading by request."""

from charonia.control.protocols import IndexEntry, ModelControl, Models
from charonia.core.errors import UnsupportedError
from charonia.core.overrides import NO_OVERRIDES, LoadOverrides
from charonia.core.text import shown

READY = "READY"


class Repository:
    """`load` and `unload` wait until the work is done; `index` does not wait."""

    def __init__(self, models: Models, control: ModelControl) -> None:
        self._models = models
        self._control = control

    def index(self, ready_only: bool = False) -> tuple[IndexEntry, ...]:
        """One entry a version; a model that was never loaded has one entry with its name only."""
        return tuple(entry for entry in self._models().index() if not ready_only or entry.state == READY)

    def load(self, name: str, overrides: LoadOverrides = NO_OVERRIDES) -> None:
        """Raises as `ModelControl.load`."""
        self._control.load(name, overrides)

    def unload(self, name: str, dependents: bool = False) -> None:
        """Raises as `ModelControl.unload`."""
        self._control.unload(name, dependents)

    def add(self, repository: str, folder: str, name: str) -> None:
        """Raises as `ModelControl.add`."""
        self._control.add(repository, folder, name)

    def remove(self, repository: str, name: str, timeout_s: float) -> bool:
        """As `ModelControl.remove`."""
        return self._control.remove(repository, name, timeout_s)


def no_repository(repository: str) -> None:
    """Raises UnsupportedError when a request picks one of several repositories by name."""
    if repository:
        raise UnsupportedError(
            f"'repository_name' specification is not supported: leave it out instead of naming '{shown(repository)}', "
            "all repositories of the server are searched"
        )
