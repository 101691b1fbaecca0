"""The message classes of the gRPC inference service, typed by the generated stubs.

The classes live in a descriptor pool of our own (`proto/pool.py`) under the package name `inference`.
"""

from typing import TYPE_CHECKING

from charonia.config.proto.pool import FILE_DESCRIPTOR_SET as FILE_DESCRIPTOR_SET

# One import of many names marked for re-export; the sorter would make it one statement a name.
# ruff: noqa: I001
if TYPE_CHECKING:
    from charonia.config.proto.grpc_service_pb2 import (
        CudaSharedMemoryRegisterRequest as CudaSharedMemoryRegisterRequest,
        CudaSharedMemoryRegisterResponse as CudaSharedMemoryRegisterResponse,
        CudaSharedMemoryStatusRequest as CudaSharedMemoryStatusRequest,
        CudaSharedMemoryStatusResponse as CudaSharedMemoryStatusResponse,
        CudaSharedMemoryUnregisterRequest as CudaSharedMemoryUnregisterRequest,
        CudaSharedMemoryUnregisterResponse as CudaSharedMemoryUnregisterResponse,
        InferBatchStatistics as InferBatchStatistics,
        InferParameter as InferParameter,
        InferResponseStatistics as InferResponseStatistics,
        InferStatistics as InferStatistics,
        InferTensorContents as InferTensorContents,
        LogSettingsRequest as LogSettingsRequest,
        LogSettingsResponse as LogSettingsResponse,
        MemoryUsage as MemoryUsage,
        ModelConfigRequest as ModelConfigRequest,
        ModelConfigResponse as ModelConfigResponse,
        ModelInferRequest as ModelInferRequest,
        ModelInferResponse as ModelInferResponse,
        ModelMetadataRequest as ModelMetadataRequest,
        ModelMetadataResponse as ModelMetadataResponse,
        ModelReadyRequest as ModelReadyRequest,
        ModelReadyResponse as ModelReadyResponse,
        ModelRepositoryParameter as ModelRepositoryParameter,
        ModelStatistics as ModelStatistics,
        ModelStatisticsRequest as ModelStatisticsRequest,
        ModelStatisticsResponse as ModelStatisticsResponse,
        ModelStreamInferResponse as ModelStreamInferResponse,
        RepositoryIndexRequest as RepositoryIndexRequest,
        RepositoryIndexResponse as RepositoryIndexResponse,
        RepositoryModelLoadRequest as RepositoryModelLoadRequest,
        RepositoryModelLoadResponse as RepositoryModelLoadResponse,
        RepositoryModelUnloadRequest as RepositoryModelUnloadRequest,
        RepositoryModelUnloadResponse as RepositoryModelUnloadResponse,
        ServerLiveRequest as ServerLiveRequest,
        ServerLiveResponse as ServerLiveResponse,
        ServerMetadataRequest as ServerMetadataRequest,
        ServerMetadataResponse as ServerMetadataResponse,
        ServerReadyRequest as ServerReadyRequest,
        ServerReadyResponse as ServerReadyResponse,
        StatisticDuration as StatisticDuration,
        SystemSharedMemoryRegisterRequest as SystemSharedMemoryRegisterRequest,
        SystemSharedMemoryRegisterResponse as SystemSharedMemoryRegisterResponse,
        SystemSharedMemoryStatusRequest as SystemSharedMemoryStatusRequest,
        SystemSharedMemoryStatusResponse as SystemSharedMemoryStatusResponse,
        SystemSharedMemoryUnregisterRequest as SystemSharedMemoryUnregisterRequest,
        SystemSharedMemoryUnregisterResponse as SystemSharedMemoryUnregisterResponse,
        TraceSettingRequest as TraceSettingRequest,
        TraceSettingResponse as TraceSettingResponse,
    )
else:
    from charonia.config.proto.pool import message

    ServerLiveRequest = message("ServerLiveRequest")
    ServerLiveResponse = message("ServerLiveResponse")
    ServerReadyRequest = message("ServerReadyRequest")
    ServerReadyResponse = message("ServerReadyResponse")
    ModelReadyRequest = message("ModelReadyRequest")
    ModelReadyResponse = message("ModelReadyResponse")
    ServerMetadataRequest = message("ServerMetadataRequest")
    ServerMetadataResponse = message("ServerMetadataResponse")
    ModelMetadataRequest = message("ModelMetadataRequest")
    ModelMetadataResponse = message("ModelMetadataResponse")
    InferParameter = message("InferParameter")
    InferTensorContents = message("InferTensorContents")
    ModelInferRequest = message("ModelInferRequest")
    ModelInferResponse = message("ModelInferResponse")
    ModelStreamInferResponse = message("ModelStreamInferResponse")
    ModelConfigRequest = message("ModelConfigRequest")
    ModelConfigResponse = message("ModelConfigResponse")
    ModelStatisticsRequest = message("ModelStatisticsRequest")
    StatisticDuration = message("StatisticDuration")
    InferStatistics = message("InferStatistics")
    InferResponseStatistics = message("InferResponseStatistics")
    InferBatchStatistics = message("InferBatchStatistics")
    MemoryUsage = message("MemoryUsage")
    ModelStatistics = message("ModelStatistics")
    ModelStatisticsResponse = message("ModelStatisticsResponse")
    ModelRepositoryParameter = message("ModelRepositoryParameter")
    RepositoryIndexRequest = message("RepositoryIndexRequest")
    RepositoryIndexResponse = message("RepositoryIndexResponse")
    RepositoryModelLoadRequest = message("RepositoryModelLoadRequest")
    RepositoryModelLoadResponse = message("RepositoryModelLoadResponse")
    RepositoryModelUnloadRequest = message("RepositoryModelUnloadRequest")
    RepositoryModelUnloadResponse = message("RepositoryModelUnloadResponse")
    SystemSharedMemoryStatusRequest = message("SystemSharedMemoryStatusRequest")
    SystemSharedMemoryStatusResponse = message("SystemSharedMemoryStatusResponse")
    SystemSharedMemoryRegisterRequest = message("SystemSharedMemoryRegisterRequest")
    SystemSharedMemoryRegisterResponse = message("SystemSharedMemoryRegisterResponse")
    SystemSharedMemoryUnregisterRequest = message("SystemSharedMemoryUnregisterRequest")
    SystemSharedMemoryUnregisterResponse = message("SystemSharedMemoryUnregisterResponse")
    CudaSharedMemoryStatusRequest = message("CudaSharedMemoryStatusRequest")
    CudaSharedMemoryStatusResponse = message("CudaSharedMemoryStatusResponse")
    CudaSharedMemoryRegisterRequest = message("CudaSharedMemoryRegisterRequest")
    CudaSharedMemoryRegisterResponse = message("CudaSharedMemoryRegisterResponse")
    CudaSharedMemoryUnregisterRequest = message("CudaSharedMemoryUnregisterRequest")
    CudaSharedMemoryUnregisterResponse = message("CudaSharedMemoryUnregisterResponse")
    TraceSettingRequest = message("TraceSettingRequest")
    TraceSettingResponse = message("TraceSettingResponse")
    LogSettingsRequest = message("LogSettingsRequest")
    LogSettingsResponse = message("LogSettingsResponse")
