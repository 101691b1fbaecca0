"""From what a backend gives to what the client asked for: selection and reshape of outputs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from charonia.core.reshape import Reshape
from charonia.core.tensor import Tensor

if TYPE_CHECKING:
    from charonia.config.io import OutputSpec


class OutputArranger:
    """Made once for a model version.

    Args:
        outputs: as configured; a model without configured outputs gives its own.
        batched: whether shapes start with a batch dimension.
    """

    def __init__(self, outputs: "Sequence[OutputSpec]", batched: bool) -> None:
        self._names = [spec.name for spec in outputs]
        self._reshapes = {
            spec.name: Reshape(spec.reshape, spec.dims, batched) for spec in outputs if spec.reshape is not None
        }

    def arrange(self, outputs: Sequence[Tensor], requested: Sequence[str]) -> Sequence[Tensor]:
        """The outputs as the backend ordered them; only those in `requested` unless that is empty."""
        names = requested or self._names
        chosen = [tensor for tensor in outputs if tensor.name in names] if names else outputs
        return [self._reshaped(tensor) for tensor in chosen] if self._reshapes else chosen

    def _reshaped(self, tensor: Tensor) -> Tensor:
        reshape = self._reshapes.get(tensor.name)
        if reshape is None:
            return tensor
        return Tensor(tensor.name, tensor.datatype, reshape.apply(tensor.shape), tensor.buffer)
