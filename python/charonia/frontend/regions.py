"""Tensors in shared memory: until regions can be registered, every region is an unknown one."""

from collections.abc import Mapping, Sequence

from charonia._wire import InferCall, InputParts
from charonia.core.errors import NotFoundError
from charonia.core.request import Parameter
from charonia.core.text import shown

_REGION = "shared_memory_region"


def refuse_regions(call: InferCall, model: str, inputs: Sequence[InputParts], asks_outputs: bool) -> None:
    """
    Raises:
        NotFoundError: an input or a requested output names a region. Its bytes are not in the request, so that going on
            would join an empty tensor into the batch, or leave the client to read a region that nobody wrote to.
    """
    for name, _, _, tensor in inputs:
        if not tensor.nbytes and (parameters := tensor.parameters):
            _refuse(model, f"input '{shown(name)}'", parameters)
    if asks_outputs and (by_output := call.output_parameters):
        for name, parameters in by_output.items():
            _refuse(model, f"output '{shown(name)}'", parameters)


def _refuse(model: str, tensor: str, parameters: Mapping[str, Parameter]) -> None:
    region = parameters.get(_REGION)
    if region is not None:
        raise NotFoundError(
            f"Unable to find shared memory region: '{shown(str(region))}', named by {tensor} of the request to model "
            f"'{model}'; this server can't register regions yet"
        )
