"""From what a backend gives to what the client asked for: order, selection and reshape of outputs."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from charonia.core.reshape import Reshape
from charonia.core.tensor import Tensor

if TYPE_CHECKING:
    from charonia.config.io import OutputSpec


class OutputArranger:
    """Made once for a model version.

    Args:
        outputs: as configured; a model without configured outputs gives its own, in its own order.
        batched: whether shapes start with a batch dimension.
    """

    def __init__(self, outputs: "Sequence[OutputSpec]", batched: bool) -> None:
        self._names = [spec.name for spec in outputs]
        self._reshapes = {
            spec.name: Reshape(spec.reshape, spec.dims, batched) for spec in outputs if spec.reshape is not None
        }

    def arrange(self, outputs: Sequence[Tensor], requested: Sequence[str]) -> Sequence[Tensor]:
        """The outputs in the model's order; only those in `requested` unless that is empty; absent ones stay absent."""
        if not self._reshapes and [tensor.name for tensor in outputs] == self._in_order(requested):
            return outputs
        by_name = {tensor.name: tensor for tensor in outputs}
        names = self._names or list(by_name)
        chosen = [by_name[name] for name in names if name in by_name and (not requested or name in requested)]
        return [self._reshaped(tensor) for tensor in chosen] if self._reshapes else chosen

    def _in_order(self, requested: Sequence[str]) -> list[str]:
        """The names asked for, in the model's order."""
        return [name for name in self._names if name in requested] if requested else self._names

    def _reshaped(self, tensor: Tensor) -> Tensor:
        reshape = self._reshapes.get(tensor.name)
        if reshape is None:
            return tensor
        return Tensor(tensor.name, tensor.datatype, reshape.apply(tensor.shape), tensor.buffer)
