"""The doors for requests with any number of responses, with one face: gRPC streams, events over HTTP, in-process."""

import asyncio
import json
import queue

import numpy as np
import requests
import sseclient
import tritonclient.grpc as grpcclient
from tritonclient.utils import np_to_triton_dtype

from charonia.core.errors import CharoniaError
from tests.every_door.doors import RefusedError
from tests.models.gated import PATIENCE_S


class InProcess:
    """`for` over the responses."""

    name = "in-process"

    def __init__(self, server):
        self._server = server

    def stream(self, model, inputs, *, parameters=None, id=""):
        """Responses as they come, each `{name: flat list, ..., "parameters": {...}}`. An error is raised."""
        try:
            for answer in self._open(model, inputs, parameters, id):
                yield _values(answer, answer.parameters)
        except CharoniaError as error:
            raise RefusedError(error.code.name, str(error)) from error

    def _open(self, model, inputs, parameters, id):
        handle = self._server.model(model)
        return handle.stream(inputs, parameters=parameters or {}, request_id=id, timeout_s=PATIENCE_S)

    def close(self):
        pass


class InProcessAsync(InProcess):
    """`async for` over them."""

    name = "in-process-async"

    def _open(self, *what):
        async def one(stream):
            return await anext(stream, None)

        stream = super()._open(*what)
        with asyncio.Runner() as runner, stream:
            while (answer := runner.run(one(stream))) is not None:
                yield answer


class Grpc:
    """`ModelStreamInfer`, by the real client. One stream for each request, so that leaving it ends that one only."""

    name = "grpc-stream"

    def __init__(self, server):
        self._address = f"127.0.0.1:{server.ports['grpc']}"

    def stream(self, model, inputs, *, parameters=None, id=""):
        came = queue.SimpleQueue()
        with grpcclient.InferenceServerClient(self._address) as client:
            client.start_stream(lambda result, error: came.put((result, error)))
            tensors = [
                grpcclient.InferInput(name, array.shape, np_to_triton_dtype(array.dtype)).set_data_from_numpy(array)
                for name, array in inputs.items()
            ]
            client.async_stream_infer(
                model, tensors, request_id=id, parameters=parameters, enable_empty_final_response=True
            )
            try:
                yield from self._responses(came, id)
            finally:
                client.stop_stream(cancel_requests=True)

    @staticmethod
    def _responses(came, id):
        final = False
        while not final:
            result, error = came.get(timeout=PATIENCE_S)
            if error is not None:
                raise RefusedError(error.status(), error.message())
            response = result.get_response()
            assert response.id == id
            final = response.parameters["triton_final_response"].bool_param
            if response.outputs or not final:
                names = [output.name for output in response.outputs]
                kept = {key: value for key, value in response.parameters.items() if key != "triton_final_response"}
                parameters = {key: getattr(value, value.WhichOneof("parameter_choice")) for key, value in kept.items()}
                yield _values({name: result.as_numpy(name) for name in names}, parameters)

    def close(self):
        pass


class Events:
    """`generate_stream`, read by a library for server-sent events."""

    name = "events"

    def __init__(self, server):
        self._url = f"http://127.0.0.1:{server.ports['http']}/v2/models"

    def stream(self, model, inputs, *, parameters=None, id=""):
        body = {name: array.ravel().tolist() for name, array in inputs.items()}
        body = {**body, "parameters": parameters or {}, **({"id": id} if id else {})}
        url = f"{self._url}/{model}/generate_stream"
        with requests.post(url, data=json.dumps(body), stream=True, timeout=PATIENCE_S) as answer:
            if answer.headers["content-type"] == "application/json":
                raise RefusedError(str(answer.status_code), answer.json()["error"])
            assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
            for number, event in enumerate(sseclient.SSEClient(answer).events()):
                members = json.loads(event.data)
                if "error" in members:
                    assert answer.status_code == 200 or number == 0
                    raise RefusedError(str(answer.status_code), members["error"])
                assert (members.pop("model_name"), members.pop("id", "")) == (model, id)
                del members["model_version"]
                outputs = {name: members.pop(name) for name in [*members] if name.isupper()}
                lists = {name: value if isinstance(value, list) else [value] for name, value in outputs.items()}
                yield {**lists, "parameters": members}

    def close(self):
        pass


def _values(arrays, parameters):
    lists = {name: np.asarray(array).ravel().tolist() for name, array in arrays.items()}
    texts = {
        name: [each.decode() if isinstance(each, bytes) else each for each in values] for name, values in lists.items()
    }
    return {**texts, "parameters": dict(parameters)}


STREAM_DOORS = (InProcess, InProcessAsync, Grpc, Events)
