"""Every door once more, for requests that are described to the byte: right ones and wrong ones alike.

A `Block` is a tensor as it lies in memory (BYTES serialised), so that answers can be compared bit by bit and a request
may say what no client library would let it say.
"""

import json
import struct
from dataclasses import dataclass, field

import grpc
import numpy as np

from charonia.core.datatypes import DATATYPES
from charonia.core.errors import CharoniaError
from tests.every_door.doors import HTTP_STATUS, RefusedError
from tests.every_door.raw import RawGrpc, RawHttp, infer_pb2

# The field of InferTensorContents for each datatype that has one, and how wide its items are there.
CONTENTS = {
    "BOOL": ("bool_contents", 1, np.bool_),
    **dict.fromkeys(("INT8", "INT16", "INT32"), ("int_contents", 2, np.int32)),
    "INT64": ("int64_contents", 3, np.int64),
    **dict.fromkeys(("UINT8", "UINT16", "UINT32"), ("uint_contents", 4, np.uint32)),
    "UINT64": ("uint64_contents", 5, np.uint64),
    "FP32": ("fp32_contents", 6, np.float32),
    "FP64": ("fp64_contents", 7, np.float64),
    "BYTES": ("bytes_contents", 8, np.object_),
}


@dataclass(frozen=True)
class Block:
    """A tensor: `data` is its memory, little-endian and C-contiguous, BYTES with their lengths."""

    name: str
    datatype: str
    shape: tuple[int, ...]
    data: bytes

    def items(self):
        """Its elements as numpy has them, flat; of BYTES a list."""
        if self.datatype == "BYTES":
            return split_strings(self.data)
        return np.frombuffer(self.data, DATATYPES[self.datatype].numpy)

    def array(self):
        """As numpy has it. ValueError when the bytes don't fit the shape."""
        if self.datatype != "BYTES":
            return self.items().reshape(self.shape)
        array = np.empty(len(self.items()), np.object_)
        array[:] = self.items()
        return array.reshape(self.shape)


@dataclass(frozen=True)
class Ask:
    """One request."""

    model: str
    inputs: tuple[Block, ...]
    version: str = ""
    outputs: tuple[str, ...] = field(default=())


def join_strings(strings):
    return b"".join(struct.pack("<I", len(each)) + each for each in strings)


def split_strings(data):
    strings, at = [], 0
    while at < len(data):
        (length,) = struct.unpack_from("<I", data, at)
        strings.append(data[at + 4 : at + 4 + length])
        at += 4 + length
    return strings


def block_of(name, array, datatype):
    data = join_strings(array.ravel().tolist()) if datatype == "BYTES" else np.ascontiguousarray(array).tobytes()
    return Block(name, datatype, tuple(array.shape), data)


def widened(floats):
    """As doubles, which hold every one of them; numpy warns of signalling NaNs."""
    with np.errstate(invalid="ignore"):
        return floats.astype(np.float64)


class BytesHttp:
    """What both forms of a body share."""

    def can_say(self, ask):
        return True

    def __init__(self, server):
        self._http = RawHttp(server)

    def _ask(self, ask, inputs, tail, binary):
        document = {"inputs": inputs, "parameters": {"binary_data_output": binary}}
        if ask.outputs:
            outputs = [{"name": name, "parameters": {"binary_data": binary}} for name in ask.outputs]
            document = {"inputs": inputs, "outputs": outputs}
        # Bytes that are no UTF-8 travel as they are, inside of JSON strings too.
        text = json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogateescape")
        model = f"{ask.model}/versions/{ask.version}" if ask.version else ask.model
        headers = {"Inference-Header-Content-Length": str(len(text))} if binary else {}
        answer = self._http.post(model, text + tail, headers)
        length = int(answer.headers.get("Inference-Header-Content-Length", len(answer.content)))
        found = json.loads(answer.content[:length].decode("utf-8", "surrogateescape"))
        if answer.status_code == 200:
            return found["outputs"], answer.content[length:]
        codes = [code for code, status in HTTP_STATUS.items() if status == str(answer.status_code)]
        raise RefusedError(codes[0] if codes else answer.status_code, found["error"])

    def close(self):
        self._http.close()


class Json(BytesHttp):
    """Tensors as JSON both ways."""

    name = "http-json"

    def ask(self, ask):
        found, _ = self._ask(ask, [self._describe(block) for block in ask.inputs], b"", False)
        return {each["name"]: self._read(each) for each in found}

    def _describe(self, block):
        items = block.items()
        if block.datatype == "BYTES":
            items = [each.decode("utf-8", "surrogateescape") for each in items]
        elif items.dtype.kind not in "biu":
            items = widened(items).tolist()
        else:
            items = items.tolist()
        return {"name": block.name, "datatype": block.datatype, "shape": block.shape, "data": items}

    def _read(self, output):
        datatype, shape = output["datatype"], tuple(output["shape"])
        if datatype == "BYTES":
            data = join_strings(each.encode("utf-8", "surrogateescape") for each in output["data"])
        else:
            data = np.array(output["data"], DATATYPES[datatype].numpy).tobytes()
        return Block(output["name"], datatype, shape, data)


class Binary(BytesHttp):
    """Tensors behind the JSON both ways."""

    name = "http-binary"

    def ask(self, ask):
        inputs = [
            {
                "name": block.name,
                "datatype": block.datatype,
                "shape": block.shape,
                "parameters": {"binary_data_size": len(block.data)},
            }
            for block in ask.inputs
        ]
        found, tail = self._ask(ask, inputs, b"".join(block.data for block in ask.inputs), True)
        answer, at = {}, 0
        for each in found:
            size = each["parameters"]["binary_data_size"]
            answer[each["name"]] = Block(each["name"], each["datatype"], tuple(each["shape"]), tail[at : at + size])
            at += size
        assert at == len(tail)
        return answer


class BytesGrpc:
    """What raw and typed contents share."""

    def __init__(self, server):
        self._grpc = RawGrpc(server)

    def ask(self, ask):
        message = infer_pb2.ModelInferRequest(model_name=ask.model, model_version=ask.version)
        for block in ask.inputs:
            described = message.inputs.add(name=block.name, datatype=block.datatype, shape=block.shape)
            self._fill(message, described, block)
        for name in ask.outputs:
            message.outputs.add(name=name)
        try:
            answer = self._grpc.infer(message)
        except grpc.RpcError as error:
            raise RefusedError(error.code().name, error.details()) from error
        pairs = zip(answer.outputs, answer.raw_output_contents, strict=True)
        return {each.name: Block(each.name, each.datatype, tuple(each.shape), data) for each, data in pairs}

    def close(self):
        self._grpc.close()


class Raw(BytesGrpc):
    """`raw_input_contents`."""

    name = "grpc-raw"

    def can_say(self, ask):
        return True

    def _fill(self, message, described, block):
        message.raw_input_contents.append(block.data)


class Typed(BytesGrpc):
    """The typed `contents` of each input."""

    name = "grpc-typed"

    def can_say(self, ask):
        return all(block.datatype in CONTENTS for block in ask.inputs)

    def _fill(self, message, described, block):
        field_name, number, dtype = CONTENTS[block.datatype]
        described.contents.SetInParent()
        if np.dtype(dtype).kind != "f":
            items = block.items()
            getattr(described.contents, field_name).extend(items if dtype is np.object_ else items.tolist())
            return
        # As bytes: a signalling NaN would not survive being a Python float.
        described.contents.MergeFromString(bytes([number << 3 | 2]) + varint(len(block.data)) + block.data)


def varint(number):
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


class InProcess:
    """Numpy in, numpy out."""

    name = "in-process"

    def __init__(self, server):
        self._server = server

    def can_say(self, ask):
        """A mapping has each name once, and an array has the bytes of its shape."""
        names = {block.name for block in ask.inputs}
        return len(names) == len(ask.inputs) and all(fits(block) for block in ask.inputs)

    def ask(self, ask):
        try:
            handle = self._server.model(ask.model, int(ask.version) if ask.version else None)
            future = handle.submit({block.name: block.array() for block in ask.inputs}, outputs=list(ask.outputs))
            found = future.result()
        except CharoniaError as error:
            raise RefusedError(error.code.name, str(error)) from error
        return {name: block_of(name, tensor.numpy(), tensor.datatype) for name, tensor in found.outputs.items()}

    def close(self):
        pass


def fits(block):
    try:
        block.array()
    except ValueError:
        return False
    return True


BYTES_DOORS = (Json, Binary, Raw, Typed, InProcess)
