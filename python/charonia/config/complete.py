"""Filling a configuration from what the model file says, and saying where the two contradict one another."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from charonia.config.findings import Completion, Finding
from charonia.config.places import NO_PLACES, Places

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig

DEFAULT_MAX_BATCH_SIZE = 4
"""Triton's, when `--backend-config=default-max-batch-size` does not say another."""


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


@dataclass(frozen=True, slots=True)
class Completed:
    """A configuration after merging: a new message, what was filled in, and what contradicts the model."""

    config: "ModelConfig"
    completions: tuple[Completion, ...] = ()
    findings: tuple[Finding, ...] = ()


def complete_from_model(
    config: "ModelConfig",
    inputs: Sequence[ModelTensor],
    outputs: Sequence[ModelTensor],
    *,
    model_file: str,
    default_max_batch_size: int = DEFAULT_MAX_BATCH_SIZE,
    places: Places = NO_PLACES,
) -> Completed:
    """Fill what `config` leaves open (inputs, outputs, datatypes, dims, max_batch_size, dynamic batching) and check it.

    Args:
        config: with defaults applied; it is not changed.
        model_file: the name for messages, as `model.onnx`.
        default_max_batch_size: for models whose every first dimension is open, when the configuration says nothing.
        places: where the fields of `config` were written; a written `max_batch_size: 0` is respected.
    """
    raise NotImplementedError


def check_against_model(
    config: "ModelConfig",
    inputs: Sequence[ModelTensor],
    outputs: Sequence[ModelTensor],
    *,
    model_file: str,
    places: Places = NO_PLACES,
) -> list[Finding]:
    """Everything in `config` that the model file contradicts; each finding shows both sides and what to write."""
    raise NotImplementedError
