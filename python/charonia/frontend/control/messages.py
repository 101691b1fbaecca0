"""Control answers as protobuf messages of the inference service."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from charonia.config import service_schema as schema
from charonia.control.metadata import ModelMetadata, ServerMetadata, TensorMetadata
from charonia.control.protocols import IndexEntry
from charonia.control.statistics import BatchRecord, DurationRecord, StatisticsRecord

if TYPE_CHECKING:
    from charonia.config.proto.grpc_service_pb2 import ModelMetadataResponse as _MetadataStub
    from charonia.config.proto.grpc_service_pb2 import RepositoryIndexResponse as _IndexStub


def server_metadata(metadata: ServerMetadata) -> schema.ServerMetadataResponse:
    return schema.ServerMetadataResponse(name=metadata.name, version=metadata.version, extensions=metadata.extensions)


def model_metadata(metadata: ModelMetadata) -> schema.ModelMetadataResponse:
    return schema.ModelMetadataResponse(
        name=metadata.name,
        versions=metadata.versions,
        platform=metadata.platform,
        inputs=[_tensor(tensor) for tensor in metadata.inputs],
        outputs=[_tensor(tensor) for tensor in metadata.outputs],
    )


def statistics(records: Iterable[StatisticsRecord]) -> schema.ModelStatisticsResponse:
    return schema.ModelStatisticsResponse(model_stats=[_record(record) for record in records])


def repository_index(entries: Iterable[IndexEntry]) -> schema.RepositoryIndexResponse:
    return schema.RepositoryIndexResponse(models=[_entry(entry) for entry in entries])


def _tensor(tensor: TensorMetadata) -> "_MetadataStub.TensorMetadata":
    return schema.ModelMetadataResponse.TensorMetadata(name=tensor.name, datatype=tensor.datatype, shape=tensor.shape)


def _entry(entry: IndexEntry) -> "_IndexStub.ModelIndex":
    return schema.RepositoryIndexResponse.ModelIndex(
        name=entry.name,
        version="" if entry.version is None else str(entry.version),
        state=entry.state or "",
        reason=entry.reason,
    )


def _record(record: StatisticsRecord) -> schema.ModelStatistics:
    durations = {name: _duration(duration) for name, duration in record.inference.items()}
    return schema.ModelStatistics(
        name=record.name,
        version=record.version,
        last_inference=record.last_inference_ms,
        inference_count=record.inference_count,
        execution_count=record.execution_count,
        inference_stats=schema.InferStatistics(**durations),
        batch_stats=[_batch(batch) for batch in record.batches],
        response_stats={str(index): _response(durations) for index, durations in record.responses.items()},
    )


def _response(durations: dict[str, DurationRecord]) -> schema.InferResponseStatistics:
    return schema.InferResponseStatistics(**{name: _duration(duration) for name, duration in durations.items()})


def _batch(batch: BatchRecord) -> schema.InferBatchStatistics:
    return schema.InferBatchStatistics(
        batch_size=batch.batch_size,
        compute_input=_duration(batch.compute_input),
        compute_infer=_duration(batch.compute_infer),
        compute_output=_duration(batch.compute_output),
    )


def _duration(duration: DurationRecord) -> schema.StatisticDuration:
    return schema.StatisticDuration(count=duration.count, ns=duration.ns)
