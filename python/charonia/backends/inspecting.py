"""What a backend can tell of a model without loading it: for `charonia check`, and to explain a load that failed."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from charonia.backends.base import ModelContext
from charonia.config.findings import Finding, Severity
from charonia.config.places import Place

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig


@dataclass(frozen=True, slots=True)
class Inspection:
    """The configuration, completed as far as the files tell without being executed, and all that is wrong.

    Attributes:
        is_complete: False when only loading the model tells what it would fill in.
    """

    config: "ModelConfig"
    findings: tuple[Finding, ...] = ()
    is_complete: bool = True


@runtime_checkable
class InspectingBackend(Protocol):
    """A backend that can look at a model's files. Backends need not."""

    def inspect(self, context: ModelContext) -> Inspection:
        """Look, without executing anything of the model's and without reading its weights.

        An error among the findings is one for which `load` would fail; `context` is as for `complete_config`.
        """


def file_error(path: object, message: str, remedy: str = "") -> Finding:
    """Something that is wrong with a whole file or folder, and keeps the model from loading."""
    return Finding(Severity.ERROR, "", Place(str(path)), message, remedy)


def file_warning(path: object, message: str, remedy: str = "") -> Finding:
    return Finding(Severity.WARNING, "", Place(str(path)), message, remedy)
