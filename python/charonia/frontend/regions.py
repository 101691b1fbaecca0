"""The tensors of a request that lie in shared memory: where they are, and the inputs that are made of them."""

from collections.abc import Collection, Mapping, Sequence
from math import prod
from typing import NamedTuple

from charonia._wire import InferCall, InputParts, bytes_fault
from charonia.core.datatypes import BYTES, DATATYPES
from charonia.core.errors import CharoniaError, InvalidArgumentError, NotFoundError
from charonia.core.request import Parameter
from charonia.core.tensor import Buffer, HostBuffer, Tensor
from charonia.core.text import shown
from charonia.memory.region import Faults, Region
from charonia.memory.regions import Regions

REGION = "shared_memory_region"
_OFFSET = "shared_memory_offset"
_BYTE_SIZE = "shared_memory_byte_size"
_NONE: Mapping[str, Parameter] = {}


class Place(NamedTuple):
    """A part of a region, checked to be in it; sizes in bytes."""

    region: Region
    offset: int
    nbytes: int


class RegionTensors:
    """What one request has in regions. Its claims on them are given back by `release`, once.

    Attributes:
        inputs: by name; they take the place of those that came without bytes.
        outputs: where the client wants its outputs, by name.
        faults: what goes wrong when the inputs are read, which is later.
    """

    def __init__(self, regions: Regions) -> None:
        self._regions = regions
        self._claimed: list[Region] = []
        self.inputs: dict[str, Tensor] = {}
        self.outputs: dict[str, Place] = {}
        self.faults = Faults()

    def claim(self, tensor: str, parameters: Mapping[str, Parameter]) -> Place:
        """The place that the parameters say.

        Raises:
            NotFoundError: there is no such region.
            InvalidArgumentError: it is not all in the region, or a parameter is missing or of another type.
        """
        name = parameters[REGION]
        if not isinstance(name, str):
            raise _wrong_type(REGION, tensor, "string_param: the name of a region", name)
        offset, nbytes = _size(parameters, _OFFSET, tensor, 0), _size(parameters, _BYTE_SIZE, tensor, None)
        region = self._regions.claim(name)
        self._claimed.append(region)
        region.check(offset, nbytes)
        return Place(region, offset, nbytes)

    def release(self) -> None:
        """The request is answered."""
        claimed, self._claimed = self._claimed, []
        self._regions.release(claimed)


def region_tensors(
    call: InferCall,
    model: str,
    parts: Sequence[InputParts],
    asks_outputs: bool,
    classes: Collection[str],
    regions: Regions,
) -> RegionTensors | None:
    """The tensors of the request that lie in regions, the caller's to release; None where it has none.

    Args:
        classes: the outputs that are asked for as classes.

    Raises:
        CharoniaError: one of them is wrong; nothing is claimed then.
    """
    inputs = [part for part in parts if not part[3].nbytes and REGION in (part[3].parameters or _NONE)]
    outputs = (call.output_parameters if asks_outputs else None) or {}
    wanted = {name: parameters for name, parameters in outputs.items() if REGION in parameters} if outputs else outputs
    if not inputs and not wanted:
        return None
    found = RegionTensors(regions)
    try:
        for name, datatype, shape, tensor in inputs:
            place = found.claim(name, tensor.parameters or _NONE)
            regions.copies.check(shown(name), place.nbytes)
            buffer = place.region.input(place.offset, place.nbytes, found.faults, regions.copies)
            found.inputs[name] = _input(model, Tensor(name, datatype, shape, buffer), place)
        for name, parameters in wanted.items():
            if name in classes:
                raise InvalidArgumentError(
                    f"output '{shown(name)}' of model '{model}' can't set both '{REGION}' and 'classification'"
                )
            found.outputs[name] = found.claim(name, parameters)
    except BaseException as error:
        found.release()
        if isinstance(error, CharoniaError):
            raise _named(error, model) from None
        raise
    return found


def _named(error: CharoniaError, model: str) -> CharoniaError:
    """The same with the model's name, which regions do not know."""
    if isinstance(error, NotFoundError):
        return NotFoundError(f"the request to model '{model}' can't be served: {error}")
    return error


def _input(model: str, tensor: Tensor, place: Place) -> Tensor:
    """Checked against the place."""
    name, datatype, shape, buffer = tensor.name, tensor.datatype, tensor.shape, tensor.buffer
    if datatype == BYTES:
        buffer = _checked_text(model, tensor)
    elif place.nbytes != (expected := prod(shape) * DATATYPES[datatype].item_size_bytes):
        raise InvalidArgumentError(
            f"input byte size mismatch for input '{shown(name)}' for model '{model}'. Expected {expected}, got "
            f"{place.nbytes} in shared memory region '{shown(place.region.name)}'"
        )
    return Tensor(name, datatype, shape, buffer)


def _checked_text(model: str, tensor: Tensor) -> Buffer:
    """Copied first: the client may write to its memory after the check."""
    data = tensor.buffer.host()
    fault = bytes_fault(model, tensor.name, tensor.shape, data)
    if fault is not None:
        raise InvalidArgumentError(fault)
    return HostBuffer(data, tensor.buffer.nbytes, owned=True)


def _size(parameters: Mapping[str, Parameter], key: str, tensor: str, default: int | None) -> int:
    value = parameters.get(key, default)
    if value is None:
        raise InvalidArgumentError(
            f"'{key}' must be specified along with '{REGION}' parameter for tensor '{shown(tensor)}'"
        )
    if not isinstance(value, int) or isinstance(value, bool):
        raise _wrong_type(key, tensor, "int64_param: a whole number of bytes", value)
    return value


def _wrong_type(key: str, tensor: str, expected: str, got: object) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"invalid value type for '{key}' parameter for tensor '{shown(tensor)}', expected {expected}; got "
        f"{shown(repr(got))}"
    )
