"""Control answers as JSON: the shapes and key order of KServe v2 and Triton's extensions."""

import json
from collections.abc import Iterable

from charonia.control.metadata import ModelMetadata, ServerMetadata, TensorMetadata
from charonia.control.protocols import IndexEntry
from charonia.control.statistics import BatchRecord, DurationRecord, StatisticsRecord

_ENCODER = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False)


def dump(value: object) -> bytes:
    """Compact, as UTF-8."""
    return _ENCODER.encode(value).encode("utf-8", "replace")


def server_metadata(metadata: ServerMetadata) -> object:
    return {"name": metadata.name, "version": metadata.version, "extensions": list(metadata.extensions)}


def model_metadata(metadata: ModelMetadata) -> object:
    return {
        "name": metadata.name,
        "versions": list(metadata.versions),
        "platform": metadata.platform,
        "inputs": [_tensor(tensor) for tensor in metadata.inputs],
        "outputs": [_tensor(tensor) for tensor in metadata.outputs],
    }


def statistics(records: Iterable[StatisticsRecord]) -> object:
    return {"model_stats": [_record(record) for record in records]}


def repository_index(entries: Iterable[IndexEntry]) -> object:
    """A key is there when it has a value: a model that was never loaded has its name only."""
    return [_entry(entry) for entry in entries]


def _tensor(tensor: TensorMetadata) -> object:
    return {"name": tensor.name, "datatype": tensor.datatype, "shape": list(tensor.shape)}


def _record(record: StatisticsRecord) -> object:
    return {
        "name": record.name,
        "version": record.version,
        "last_inference": record.last_inference_ms,
        "inference_count": record.inference_count,
        "execution_count": record.execution_count,
        "inference_stats": {name: _duration(duration) for name, duration in record.inference.items()},
        "response_stats": {
            str(index): {name: _duration(duration) for name, duration in durations.items()}
            for index, durations in record.responses.items()
        },
        "batch_stats": [_batch(batch) for batch in record.batches],
        "memory_usage": [],
    }


def _batch(batch: BatchRecord) -> object:
    return {
        "batch_size": batch.batch_size,
        "compute_input": _duration(batch.compute_input),
        "compute_infer": _duration(batch.compute_infer),
        "compute_output": _duration(batch.compute_output),
    }


def _duration(duration: DurationRecord) -> object:
    return {"count": duration.count, "ns": duration.ns}


def _entry(entry: IndexEntry) -> object:
    version = None if entry.version is None else str(entry.version)
    row = {"name": entry.name, "version": version, "state": entry.state, "reason": entry.reason}
    return {key: value for key, value in row.items() if value or key == "name"}
