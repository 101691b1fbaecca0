"""What a load is told to do, version by version."""

from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Protocol

from charonia.core.errors import CharoniaError
from charonia.core.model_id import ModelId
from charonia.repository.states import V


class Change(Enum):
    """What becomes of a version that serves.

    KEEP: nothing of it has changed. UPDATE: it stays, with other instances or with another wording of its
    configuration. LOAD: it is loaded anew beside the old one.
    """

    KEEP = auto()
    UPDATE = auto()
    LOAD = auto()


class VersionUpdate(Protocol):
    """An update that is ready to be made. It ends with one of the two."""

    def commit(self) -> None:
        """Make it. Can't fail; may wait for what instances that leave are executing."""
        ...

    def discard(self) -> None:
        """Leave everything as it was."""
        ...


class ModelPlan(Protocol[V]):
    """A model whose config has been read: what will be loaded."""

    @property
    def versions(self) -> Sequence[int]:
        """The numbers to serve, at least one."""
        ...

    def change(self, version: int, served: V) -> Change:
        """What a version that serves needs."""
        ...

    def load(self, version: int) -> V:
        """Load and start one version; may take long; several run at once. Raises CharoniaError with the reason."""
        ...

    def update(self, version: int, served: V) -> VersionUpdate:
        """Prepare the update of a version; as `load`."""
        ...


Plans = Mapping[ModelId, ModelPlan[V] | CharoniaError]
"""By model: what to load, or why it can't be. Made for all models of a load at once: instances share the cores."""
