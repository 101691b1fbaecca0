"""Two more doors: HTTP and gRPC with every tensor in system shared memory, inputs and outputs."""

import itertools
import mmap
import os
import secrets
from math import prod

import numpy as np
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import (
    InferenceServerException,
    np_to_triton_dtype,
    serialize_byte_tensor,
    triton_to_np_dtype,
)

from tests.every_door.doors import Answer, Grpc, Http, RefusedError, grpc_parameters

# More than any output of these tests; memory that nobody writes to costs nothing.
OUTPUT_BYTES = 4 << 20
# Tensors begin where no item is aligned.
ODD = 3
# Processes in name spaces of their own have the same numbers, and one folder of segments.
_PREFIX = f"charonia_test_{secrets.token_hex(6)}_"
_numbers = itertools.count()


def segment_files():
    """What the tests have left in the folder of segments."""
    return {name for name in os.listdir("/dev/shm") if name.startswith(_PREFIX)}


class Segment:
    """Shared memory of a client, registered as a region of the same name."""

    def __init__(self, client, nbytes, offset=0):
        self.name = f"{_PREFIX}{next(_numbers)}"
        self.offset = offset
        self._client = client
        self.path = f"/dev/shm/{self.name}"
        with open(self.path, "xb+") as file:
            file.truncate(offset + nbytes)
            self.memory = mmap.mmap(file.fileno(), offset + nbytes)
        try:
            client.register_system_shared_memory(self.name, f"/{self.name}", nbytes, offset)
        except InferenceServerException:
            os.unlink(self.path)
            raise

    def put(self, array, offset=0):
        data = bytes_of(array)
        start = self.offset + offset
        self.memory[start : start + len(data)] = data

    def get(self, datatype, shape, offset=0):
        start = self.offset + offset
        if datatype == "BYTES":
            return np.array(self._texts(start, prod(shape)), np.object_).reshape(shape)
        dtype = np.dtype(triton_to_np_dtype(datatype))
        return np.frombuffer(self.memory[start : start + prod(shape) * dtype.itemsize], dtype).reshape(shape)

    def _texts(self, start, count):
        texts = []
        for _ in range(count):
            end = start + 4 + int.from_bytes(self.memory[start : start + 4], "little")
            texts.append(self.memory[start + 4 : end])
            start = end
        return texts

    def close(self):
        self._client.unregister_system_shared_memory(self.name)
        os.unlink(self.path)


def allow(server):
    server._parts.regions.allowed = True


def bytes_of(array):
    if array.dtype == np.object_:
        return serialize_byte_tensor(array).item() if array.size else b""
    return array.tobytes()


def nbytes_of(array):
    return len(bytes_of(array))


class Regions:
    """What the region doors share: a segment for each call, with all its tensors.

    They open every server to shared memory, so that tests of other things need no flag for it.
    """

    def infer(
        self, model, inputs, *, version="", outputs=(), parameters=None, id="", timeout_us=0, priority=0, **sequence
    ):
        arrays = {name: np.asarray(array) for name, array in inputs.items()}
        known = list(outputs) or self._outputs_of(model, version)
        names = known or []
        starts = list(itertools.accumulate((nbytes_of(array) + ODD for array in arrays.values()), initial=ODD))
        segment = Segment(self._client, starts[-1] + len(names) * (OUTPUT_BYTES + ODD) + 1, offset=ODD)
        try:
            tensors = [
                self._placed(segment, name, array, start)
                for (name, array), start in zip(arrays.items(), starts, strict=False)
            ]
            places = {name: starts[-1] + index * (OUTPUT_BYTES + ODD) for index, name in enumerate(names)}
            wanted = [self._wanted(segment, name, places[name]) for name in names]
            result = self._client.infer(
                model,
                tensors,
                model_version=version,
                outputs=wanted or None,
                request_id=id,
                timeout=timeout_us or None,
                priority=priority,
                parameters=parameters,
                **sequence,
            )
            if known is not None:
                return self._found(result, segment, places)
        except InferenceServerException as error:
            raise RefusedError(self._code(error), error.message()) from error
        finally:
            segment.close()
        # The model came between the question for its outputs and the request: now it can be asked for them.
        return self.infer(
            model,
            inputs,
            version=version,
            outputs=outputs,
            id=id,
            parameters=parameters,
            timeout_us=timeout_us,
            priority=priority,
            **sequence,
        )

    def _placed(self, segment, name, array, start):
        segment.put(array, start)
        tensor = self._module.InferInput(name, array.shape, np_to_triton_dtype(array.dtype))
        tensor.set_shared_memory(segment.name, nbytes_of(array), start)
        return tensor

    def _wanted(self, segment, name, start):
        output = self._module.InferRequestedOutput(name)
        output.set_shared_memory(segment.name, OUTPUT_BYTES, start)
        return output


class HttpRegions(Regions, Http):
    """JSON that only says where the tensors are."""

    def __init__(self, server):
        super().__init__(server, binary=False)
        allow(server)
        self._module = httpclient
        self.name = "http-regions"

    def _outputs_of(self, model, version):
        try:
            return [each["name"] for each in self._client.get_model_metadata(model, version)["outputs"]]
        except InferenceServerException:
            return None

    def _found(self, result, segment, places):
        response = result.get_response()
        found = {}
        for output in response["outputs"]:
            assert "data" not in output, output
            found[output["name"]] = segment.get(output["datatype"], output["shape"], places[output["name"]])
        return Answer(found, response["model_version"], response.get("id", ""), response.get("parameters", {}))


class GrpcRegions(Regions, Grpc):
    """Messages that only say where the tensors are."""

    name = "grpc-regions"

    def __init__(self, server):
        super().__init__(server)
        allow(server)
        self._module = grpcclient

    def _outputs_of(self, model, version):
        try:
            return [each.name for each in self._client.get_model_metadata(model, version).outputs]
        except InferenceServerException:
            return None

    def _found(self, result, segment, places):
        response = result.get_response()
        assert all(not raw for raw in response.raw_output_contents)
        assert len(response.raw_output_contents) == len(response.outputs)
        found = {
            each.name: segment.get(each.datatype, list(each.shape), places[each.name]) for each in response.outputs
        }
        return Answer(found, response.model_version, response.id, grpc_parameters(response))
