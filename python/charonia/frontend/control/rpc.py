"""The unary methods of the gRPC inference service, but for ModelInfer, which the wire keeps to itself."""

import time
import traceback
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from google.protobuf.message import DecodeError

from charonia.config import service_schema as schema
from charonia.config.proto.pool import message
from charonia.control.handlers import Handlers
from charonia.control.repository import no_repository
from charonia.control.versions import parse_version
from charonia.core.errors import CharoniaError, Code, InvalidArgumentError, UnsupportedError
from charonia.core.log import Log
from charonia.core.text import shown
from charonia.frontend.control import messages
from charonia.frontend.control.load import dependents_of_message, overrides_of_message
from charonia.frontend.control.logging import change_of_message, settings_message
from charonia.frontend.control.shared_memory import DRIVER, cuda_message, system_message
from charonia.frontend.control.tracing import request_of_message
from charonia.frontend.control.tracing import settings_message as trace_message
from charonia.frontend.control.waiting import WaitingCalls
from charonia.memory.region import CUDA, SYSTEM

if TYPE_CHECKING:
    from google.protobuf.message import Message

    from charonia._wire import RpcCall

SERVICE = "inference.GRPCInferenceService"
CHECK = "/grpc.health.v1.Health/Check"

_HealthCheckRequest = message("HealthCheckRequest", "grpc.health.v1")
_HealthCheckResponse = message("HealthCheckResponse", "grpc.health.v1")


class _Versioned(Protocol):
    """The requests that name a model version."""

    name: str
    version: str


class _Method(NamedTuple):
    """How to read the request of a method, and what gives its response; a method that waits gives it later."""

    parse: Callable[[bytes], Any]
    answer: Callable[[Any], "Message | Awaitable[Message]"]


class ControlRpc:
    """Answers RPC calls by the table of the service's methods. `waiting` runs those that wait."""

    def __init__(self, handlers: Handlers, log: Log, waiting: WaitingCalls) -> None:
        self._handlers = handlers
        self._log = log
        self._waiting = waiting
        methods = {**self._working(), **_streams()}
        self._methods = {f"/{SERVICE}/{name}": method for name, method in methods.items()}
        self._methods[CHECK] = _Method(_HealthCheckRequest.FromString, self._check)

    @property
    def paths(self) -> frozenset[str]:
        """Every method path that has an answer."""
        return frozenset(self._methods)

    async def serve(self, call: "RpcCall") -> None:
        """Answer one call. Never raises."""
        began = time.monotonic()
        code = await self._settle(call)
        if self._log.highest_verbosity:
            took_us = int((time.monotonic() - began) * 1e6)
            self._log.verbose(f"gRPC {shown(call.path)}: {code.name} after {took_us} us")

    async def _settle(self, call: "RpcCall") -> Code:
        """Reply or fail; gives the code that the client gets."""
        try:
            call.reply(await self._answer(call))
        except CharoniaError as error:
            call.fail(error.code, str(error))
            return error.code
        except Exception as error:
            self._log.error(f"{call.path} failed by a fault of the server: {traceback.format_exc()}")
            call.fail(Code.INTERNAL, f"{call.path} failed by a fault of the server: {error!r}")
            return Code.INTERNAL
        return Code.OK

    async def _answer(self, call: "RpcCall") -> bytes:
        method = self._methods.get(call.path)
        if method is None:
            raise UnsupportedError(f"there is no method '{call.path}' in this server")
        try:
            request = method.parse(call.message)
        except DecodeError as error:
            raise InvalidArgumentError(f"the request of {call.path} is not a valid message: {error}") from error
        answer = method.answer(request)
        if isinstance(answer, Awaitable):
            answer = await answer
        return answer.SerializeToString()

    def _working(self) -> dict[str, _Method]:
        return {
            "ServerLive": _Method(schema.ServerLiveRequest.FromString, self._live),
            "ServerReady": _Method(schema.ServerReadyRequest.FromString, self._ready),
            "ModelReady": _Method(schema.ModelReadyRequest.FromString, self._model_ready),
            "ServerMetadata": _Method(schema.ServerMetadataRequest.FromString, self._server_metadata),
            "ModelMetadata": _Method(schema.ModelMetadataRequest.FromString, self._model_metadata),
            "ModelConfig": _Method(schema.ModelConfigRequest.FromString, self._config),
            "ModelStatistics": _Method(schema.ModelStatisticsRequest.FromString, self._statistics),
            "RepositoryIndex": _Method(schema.RepositoryIndexRequest.FromString, self._index),
            "RepositoryModelLoad": _Method(schema.RepositoryModelLoadRequest.FromString, self._load),
            "RepositoryModelUnload": _Method(schema.RepositoryModelUnloadRequest.FromString, self._unload),
            "LogSettings": _Method(schema.LogSettingsRequest.FromString, self._log_settings),
            "TraceSetting": _Method(schema.TraceSettingRequest.FromString, self._trace_settings),
            **self._shared_memory(),
        }

    def _shared_memory(self) -> dict[str, _Method]:
        return {
            "SystemSharedMemoryStatus": _Method(schema.SystemSharedMemoryStatusRequest.FromString, self._system),
            "SystemSharedMemoryRegister": _Method(
                schema.SystemSharedMemoryRegisterRequest.FromString, self._register_system
            ),
            "SystemSharedMemoryUnregister": _Method(
                schema.SystemSharedMemoryUnregisterRequest.FromString, self._unregister_system
            ),
            "CudaSharedMemoryStatus": _Method(schema.CudaSharedMemoryStatusRequest.FromString, self._cuda),
            "CudaSharedMemoryRegister": _Method(schema.CudaSharedMemoryRegisterRequest.FromString, self._register_cuda),
            "CudaSharedMemoryUnregister": _Method(
                schema.CudaSharedMemoryUnregisterRequest.FromString, self._unregister_cuda
            ),
        }

    def _live(self, request: schema.ServerLiveRequest) -> schema.ServerLiveResponse:
        return schema.ServerLiveResponse(live=self._handlers.health.live())

    async def _ready(self, request: schema.ServerReadyRequest) -> schema.ServerReadyResponse:
        return schema.ServerReadyResponse(ready=await self._handlers.health.ready())

    async def _model_ready(self, request: schema.ModelReadyRequest) -> schema.ModelReadyResponse:
        ready = await self._handlers.health.known_and_ready(*_model_version(request))
        return schema.ModelReadyResponse(ready=ready)

    async def _check(self, request: object) -> "Message":
        response: Message = _HealthCheckResponse(
            status="SERVING" if await self._handlers.health.ready() else "NOT_SERVING"
        )
        return response

    def _server_metadata(self, request: schema.ServerMetadataRequest) -> schema.ServerMetadataResponse:
        return messages.server_metadata(self._handlers.metadata.server())

    def _model_metadata(self, request: schema.ModelMetadataRequest) -> schema.ModelMetadataResponse:
        return messages.model_metadata(self._handlers.metadata.model(*_model_version(request)))

    def _config(self, request: schema.ModelConfigRequest) -> schema.ModelConfigResponse:
        return schema.ModelConfigResponse(config=self._handlers.configuration.of_model(*_model_version(request)))

    def _statistics(self, request: schema.ModelStatisticsRequest) -> schema.ModelStatisticsResponse:
        return messages.statistics(self._handlers.statistics.read(*_model_version(request)))

    def _index(self, request: schema.RepositoryIndexRequest) -> schema.RepositoryIndexResponse:
        no_repository(request.repository_name)
        return messages.repository_index(self._handlers.repository.index(request.ready))

    async def _load(self, request: schema.RepositoryModelLoadRequest) -> schema.RepositoryModelLoadResponse:
        no_repository(request.repository_name)
        overrides = overrides_of_message(request)
        await self._waiting.run(
            request.model_name, lambda: self._handlers.repository.load(request.model_name, overrides)
        )
        return schema.RepositoryModelLoadResponse()

    async def _unload(self, request: schema.RepositoryModelUnloadRequest) -> schema.RepositoryModelUnloadResponse:
        no_repository(request.repository_name)
        dependents = dependents_of_message(request)
        await self._waiting.run(
            request.model_name, lambda: self._handlers.repository.unload(request.model_name, dependents)
        )
        return schema.RepositoryModelUnloadResponse()

    def _log_settings(self, request: schema.LogSettingsRequest) -> schema.LogSettingsResponse:
        if request.settings:
            return settings_message(self._handlers.logging.update(change_of_message(request)))
        return settings_message(self._handlers.logging.settings())

    def _system(self, request: schema.SystemSharedMemoryStatusRequest) -> schema.SystemSharedMemoryStatusResponse:
        return system_message(self._handlers.shared_memory.system(request.name))

    def _register_system(
        self, request: schema.SystemSharedMemoryRegisterRequest
    ) -> schema.SystemSharedMemoryRegisterResponse:
        self._handlers.shared_memory.register_system(request.name, request.key, request.offset, request.byte_size)
        return schema.SystemSharedMemoryRegisterResponse()

    def _unregister_system(
        self, request: schema.SystemSharedMemoryUnregisterRequest
    ) -> schema.SystemSharedMemoryUnregisterResponse:
        self._handlers.shared_memory.unregister(SYSTEM, request.name)
        return schema.SystemSharedMemoryUnregisterResponse()

    def _cuda(self, request: schema.CudaSharedMemoryStatusRequest) -> schema.CudaSharedMemoryStatusResponse:
        return cuda_message(self._handlers.shared_memory.cuda(request.name))

    async def _register_cuda(
        self, request: schema.CudaSharedMemoryRegisterRequest
    ) -> schema.CudaSharedMemoryRegisterResponse:
        order = (request.name, request.raw_handle, request.device_id, request.byte_size)
        await self._waiting.run(DRIVER, lambda: self._handlers.shared_memory.register_cuda(*order))
        return schema.CudaSharedMemoryRegisterResponse()

    def _unregister_cuda(
        self, request: schema.CudaSharedMemoryUnregisterRequest
    ) -> schema.CudaSharedMemoryUnregisterResponse:
        self._handlers.shared_memory.unregister(CUDA, request.name)
        return schema.CudaSharedMemoryUnregisterResponse()

    def _trace_settings(self, request: schema.TraceSettingRequest) -> schema.TraceSettingResponse:
        tracing = self._handlers.tracing
        if request.settings:
            values = tracing.update(request.model_name, request_of_message(request))
        else:
            values = tracing.settings(request.model_name)
        return trace_message(values, tracing.config)


def _model_version(request: _Versioned) -> tuple[str, int]:
    return request.name, parse_version(request.version, request.name)


def _streams() -> dict[str, _Method]:
    """Inference itself, which the wire answers: none of these calls comes here, but the service is whole."""

    def refuse(request: object) -> "Message":
        raise UnsupportedError("inference is not a control method: it is answered by the server's inference path")

    return {name: _Method(schema.ModelInferRequest.FromString, refuse) for name in ("ModelInfer", "ModelStreamInfer")}
