"""The four doors of the server, with one face: every inference test goes through each of them."""

from dataclasses import dataclass, field

import numpy as np
import tritonclient.grpc as grpcclient
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException, np_to_triton_dtype

from charonia.api import Server
from charonia.core.errors import CharoniaError

# What a client is told, by door, for each canonical code that tests look at.
HTTP_STATUS = {
    "INVALID_ARGUMENT": "400",
    "NOT_FOUND": "404",
    "UNAVAILABLE": "503",
    "UNIMPLEMENTED": "501",
    "INTERNAL": "500",
}


class RefusedError(Exception):
    """The server refused or failed the request; `code` is the canonical name."""

    def __init__(self, code, message):
        super().__init__(message)
        self.code = code


@dataclass
class Answer:
    """What came back: arrays by name in the server's order, which version answered, and the model's parameters."""

    outputs: dict
    model_version: str
    id: str = ""
    parameters: dict = field(default_factory=dict)

    def __getitem__(self, name):
        return self.outputs[name]


class InProcess:
    """No wire at all."""

    name = "in-process"

    def __init__(self, server: Server):
        self._server = server

    def infer(
        self, model, inputs, *, version="", outputs=(), parameters=None, id="", timeout_us=0, priority=0, **sequence
    ):
        """`sequence` may have sequence_id, sequence_start and sequence_end."""
        try:
            handle = self._server.model(model, int(version) if version else None)
            found = handle.infer(
                inputs,
                outputs=list(outputs),
                parameters=parameters or {},
                request_id=id,
                timeout_us=timeout_us,
                priority=priority,
                **sequence,
            )
            return Answer(found, str(handle.version), id, dict(found.parameters))
        except CharoniaError as error:
            raise RefusedError(error.code.name, str(error)) from error

    def close(self):
        pass


class Network:
    """What the HTTP and gRPC doors share: the real client."""

    def __init__(self, client_module, address):
        self._module = client_module
        self._client = client_module.InferenceServerClient(address)

    def infer(
        self, model, inputs, *, version="", outputs=(), parameters=None, id="", timeout_us=0, priority=0, **sequence
    ):
        tensors = [self._tensor(name, np.asarray(array)) for name, array in inputs.items()]
        wanted = [self._output(name) for name in outputs] or None
        try:
            result = self._client.infer(
                model,
                tensors,
                model_version=version,
                outputs=wanted,
                request_id=id,
                timeout=timeout_us or None,
                priority=priority,
                parameters=parameters,
                **sequence,
            )
        except InferenceServerException as error:
            raise RefusedError(self._code(error), error.message()) from error
        return self._answer(result)

    def close(self):
        self._client.close()


class Http(Network):
    """HTTP; `binary` chooses the form of tensors both ways."""

    def __init__(self, server: Server, binary: bool):
        super().__init__(httpclient, f"127.0.0.1:{server.ports['http']}")
        self._binary = binary
        self.name = "http-binary" if binary else "http-json"

    def _tensor(self, name, array):
        tensor = httpclient.InferInput(name, array.shape, np_to_triton_dtype(array.dtype))
        if self._binary or array.dtype == np.float16:  # the client has no JSON form for FP16
            return tensor.set_data_from_numpy(array, binary_data=True)
        if array.dtype == np.object_:
            array = np.array(
                [each.decode() if isinstance(each, bytes) else each for each in array.ravel()], np.object_
            ).reshape(array.shape)
        return tensor.set_data_from_numpy(array, binary_data=False)

    def _output(self, name):
        return httpclient.InferRequestedOutput(name, binary_data=self._binary)

    def _code(self, error):
        return next((code for code, status in HTTP_STATUS.items() if status == error.status()), error.status())

    def _answer(self, result):
        response = result.get_response()
        names = [output["name"] for output in response["outputs"]]
        outputs = {name: result.as_numpy(name) for name in names}
        return Answer(outputs, response["model_version"], response.get("id", ""), response.get("parameters", {}))


class Grpc(Network):
    """gRPC with raw contents, as the client sends them."""

    name = "grpc"

    def __init__(self, server: Server):
        super().__init__(grpcclient, f"127.0.0.1:{server.ports['grpc']}")

    def _tensor(self, name, array):
        return grpcclient.InferInput(name, array.shape, np_to_triton_dtype(array.dtype)).set_data_from_numpy(array)

    def _output(self, name):
        return grpcclient.InferRequestedOutput(name)

    def _code(self, error):
        return error.status().removeprefix("StatusCode.")

    def _answer(self, result):
        response = result.get_response()
        outputs = {output.name: result.as_numpy(output.name) for output in response.outputs}
        return Answer(outputs, response.model_version, response.id, grpc_parameters(response))


def grpc_parameters(response):
    """Those of a ModelInferResponse, as values."""
    return {key: getattr(each, each.WhichOneof("parameter_choice")) for key, each in response.parameters.items()}


def open_door(name, server):
    """The door called `name`."""
    from tests.every_door.region_doors import GrpcRegions, HttpRegions  # they are made of those above

    return {
        "http-json": lambda: Http(server, binary=False),
        "http-binary": lambda: Http(server, binary=True),
        "grpc": lambda: Grpc(server),
        "in-process": lambda: InProcess(server),
        "http-regions": lambda: HttpRegions(server),
        "grpc-regions": lambda: GrpcRegions(server),
    }[name]()


DOORS = ("http-json", "http-binary", "grpc", "in-process", "http-regions", "grpc-regions")
