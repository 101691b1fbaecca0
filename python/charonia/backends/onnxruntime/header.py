"""What an `.onnx` file says about itself, read without loading it: a model of 2 GB takes milliseconds and no memory.

The file is mapped and its fields are passed over, so only the pages in which they begin are read.
"""

import mmap
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from charonia.backends.onnxruntime.protobuf import Field, Malformed, encoded, fields, signed
from charonia.config.model_tensor import OPEN, ModelTensor

# onnx.TensorProto.DataType, as far as the protocol has a datatype for it.
_DATATYPES = {
    1: "FP32",
    2: "UINT8",
    3: "INT8",
    4: "UINT16",
    5: "INT16",
    6: "INT32",
    7: "INT64",
    8: "BYTES",
    9: "BOOL",
    10: "FP16",
    11: "FP64",
    12: "UINT32",
    13: "UINT64",
    16: "BF16",
}
_EXTERNAL = 1


@dataclass(frozen=True, slots=True)
class ExternalData:
    """Weights that stand in another file beside the model: which tensor's, in which file, up to which byte."""

    tensor: str
    location: str
    end: int


@dataclass(slots=True)
class Header:
    """The part of a model that says how it is used.

    Attributes:
        inputs, outputs: with the datatype "" for what is no tensor of a datatype of the protocol (a sequence, a map).
        opsets: by domain, "" for ONNX's own.
        initializers: names of the weights; an input of such a name is optional.
        shapeless: names of inputs and outputs whose shape the file leaves open altogether.
    """

    ir_version: int = 0
    producer: str = ""
    opsets: dict[str, int] = field(default_factory=dict)
    inputs: list[ModelTensor] = field(default_factory=list)
    outputs: list[ModelTensor] = field(default_factory=list)
    initializers: set[str] = field(default_factory=set)
    external: list[ExternalData] = field(default_factory=list)
    shapeless: set[str] = field(default_factory=set)
    has_graph: bool = False

    def signature(self) -> tuple[list[ModelTensor], list[ModelTensor]]:
        """Inputs and outputs as a session would declare them: without the weights that old exporters list as inputs."""
        return [tensor for tensor in self.inputs if tensor.name not in self.initializers], self.outputs

    def smallest_model(self) -> bytes:
        """A model of one node with the same versions: a runtime that can't read this one can't read it either."""
        opsets = b"".join(encoded(8, encoded(1, domain.encode()) + encoded(2, n)) for domain, n in self.opsets.items())
        node = encoded(1, b"x") + encoded(2, b"y") + encoded(4, b"Identity")
        dim = encoded(2, encoded(1, encoded(1, 1)))
        value = encoded(2, encoded(1, encoded(1, 1) + dim))
        graph = encoded(1, node) + encoded(2, b"g")
        graph += encoded(11, encoded(1, b"x") + value) + encoded(12, encoded(1, b"y") + value)
        return encoded(1, self.ir_version) + encoded(7, graph) + opsets


def mapped(path: Path) -> memoryview:
    """The file's bytes, which are read as they are looked at. The mapping ends with the last view. Raises OSError."""
    with path.open("rb") as file:
        if path.stat().st_size == 0:
            return memoryview(b"")
        return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))


def read_header(path: Path) -> Header:
    """
    Raises:
        Malformed: the file is no ONNX model, or was cut off.
        OSError: it can't be read.
    """
    header = Header()
    try:
        for number, value in fields(mapped(path)):
            _of_model(header, number, value)
    except UnicodeDecodeError:
        raise Malformed from None
    if not header.has_graph:
        raise Malformed
    return header


def _of_model(header: Header, number: int, value: int | memoryview) -> None:
    if number == 1:
        header.ir_version = _number(value)
    elif number == 2:
        header.producer = _text(value)
    elif number == 7:
        header.has_graph = True
        for each in fields(_bytes(value)):
            _of_graph(header, *each)
    elif number == 8:
        opset = dict(fields(_bytes(value)))
        header.opsets[_text(opset.get(1, memoryview(b"")))] = _number(opset.get(2, 0))


def _of_graph(header: Header, number: int, value: int | memoryview) -> None:
    if number == 5:
        name, external = _weight(_bytes(value))
        header.initializers.add(name)
        header.external += external
    elif number == 11:
        header.inputs.append(_tensor(header, _bytes(value)))
    elif number == 12:
        header.outputs.append(_tensor(header, _bytes(value)))


def _weight(message: memoryview) -> tuple[str, list[ExternalData]]:
    """The name of a TensorProto, and where its data is when that is in another file."""
    name, is_external, entries = "", False, {}
    for number, value in fields(message):
        if number == 8:
            name = _text(value)
        elif number == 13:
            entry = dict(fields(_bytes(value)))
            entries[_text(entry.get(1, memoryview(b"")))] = _text(entry.get(2, memoryview(b"")))
        elif number == 14:
            is_external = value == _EXTERNAL
    if not is_external or "location" not in entries:
        return name, []
    end = _decimal(entries.get("offset", "")) + _decimal(entries.get("length", ""))
    return name, [ExternalData(name, entries["location"], end)]


def _tensor(header: Header, message: memoryview) -> ModelTensor:
    """A ValueInfoProto."""
    parts = dict(fields(message))
    name = _text(parts.get(1, memoryview(b"")))
    kind = dict(fields(_bytes(parts.get(2, memoryview(b"")))))
    if 1 not in kind:
        return ModelTensor(name, "", ())
    tensor = dict(fields(_bytes(kind[1])))
    if 2 not in tensor:
        header.shapeless.add(name)
    dims = tuple(_dim(_bytes(value)) for number, value in _fields_of(tensor.get(2)) if number == 1)
    return ModelTensor(name, _DATATYPES.get(_number(tensor.get(1, 0)), ""), dims)


def _fields_of(message: int | memoryview | None) -> Iterator[Field]:
    return fields(_bytes(message)) if message is not None else iter(())


def _dim(message: memoryview) -> int:
    size = dict(fields(message)).get(1)
    return signed(_number(size)) if size is not None and signed(_number(size)) >= 0 else OPEN


def _decimal(text: str) -> int:
    return int(text) if text.isdecimal() else 0


def _number(value: int | memoryview) -> int:
    if not isinstance(value, int):
        raise Malformed
    return value


def _bytes(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise Malformed
    return value


def _text(value: int | memoryview) -> str:
    return bytes(_bytes(value)).decode()
