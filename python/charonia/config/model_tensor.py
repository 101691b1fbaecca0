"""Inputs and outputs as a model file declares them, and how their shapes are compared with a configuration's."""

from collections.abc import Sequence
from dataclasses import dataclass

from charonia.core.datatypes import DATATYPES

OPEN = -1
"""A size that varies."""


@dataclass(frozen=True, slots=True)
class ModelTensor:
    """An input or output as the model file declares it.

    Attributes:
        datatype: the wire name (`FP32`).
        dims: the full shape, with the batch dimension if there is one; -1 for any size; () for a scalar.
        optional: the model runs without this input (it has a default).
    """

    name: str
    datatype: str
    dims: tuple[int, ...]
    optional: bool = False

    @property
    def can_batch(self) -> bool:
        """Whether the first dimension may be the batch dimension."""
        return bool(self.dims) and self.dims[0] == OPEN

    @property
    def written_type(self) -> str:
        """As a configuration says it, TYPE_FP32; `…` for what is no datatype of the protocol."""
        datatype = DATATYPES.get(self.datatype)
        return datatype.config_name if datatype is not None else "…"


def fits(dims: Sequence[int], model_dims: Sequence[int]) -> bool:
    """Whether every shape that `dims` allows is one that the model takes."""
    return len(dims) == len(model_dims) and all(
        model in (OPEN, dim) for dim, model in zip(dims, model_dims, strict=True)
    )


def shown(dims: Sequence[int]) -> str:
    """As a reader would write it: `[-1, 3, 224, 224]`."""
    return f"[{', '.join(map(str, dims))}]"
