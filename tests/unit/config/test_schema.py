"""Our definitions against those of the real client: every message, field, number, type, oneof and enum."""

from collections.abc import Iterator

import pytest
from google.protobuf import text_format
from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor

from charonia.config import schema, service_schema
from charonia.config.proto import pool
from charonia.config.proto.generate import PROTOS

model_config_pb2 = pytest.importorskip("tritonclient.grpc.model_config_pb2")
service_pb2 = pytest.importorskip("tritonclient.grpc.service_pb2")

# What the source protos have and the packaged client lacks.
NEWER_THAN_CLIENT: set[str] = set()


def _messages(descriptor: Descriptor) -> Iterator[Descriptor]:
    yield descriptor
    for nested in descriptor.nested_types:
        yield from _messages(nested)


def _field_facts(field: FieldDescriptor) -> tuple[object, ...]:
    kind = field.message_type or field.enum_type
    oneof = field.containing_oneof.name if field.containing_oneof else None
    return (field.name, field.number, field.type, field.is_repeated, kind.full_name if kind else None, oneof)


def _enum_facts(enum: EnumDescriptor) -> dict[str, int]:
    return {value.name: value.number for value in enum.values}


def _facts(module: object, names: list[str]) -> dict[str, object]:
    facts: dict[str, object] = {}
    for name in names:
        for message in _messages(getattr(module, name).DESCRIPTOR):
            facts[message.full_name] = None
            for field in message.fields:
                facts[f"{message.full_name}.{field.name}"] = _field_facts(field)
            for enum in message.enum_types:
                facts[enum.full_name] = _enum_facts(enum)
    return facts


@pytest.mark.parametrize(
    ("ours", "theirs"), [(schema, model_config_pb2), (service_schema, service_pb2)], ids=["config", "service"]
)
def test_messages_equal_the_clients(ours: object, theirs: object) -> None:
    names = list(theirs.DESCRIPTOR.message_types_by_name)  # type: ignore[attr-defined]
    expected = _facts(theirs, names)
    found = _facts(ours, names)
    missing_or_different = {name: (fact, found.get(name)) for name, fact in expected.items() if found.get(name) != fact}
    assert not missing_or_different
    assert set(found) - set(expected) <= NEWER_THAN_CLIENT


def test_data_types_equal_the_clients() -> None:
    assert dict(schema.DataType.items()) == dict(model_config_pb2.DataType.items())


def test_services_equal_the_clients() -> None:
    ours = pool._POOL.FindServiceByName("inference.GRPCInferenceService")
    theirs = service_pb2.DESCRIPTOR.services_by_name["GRPCInferenceService"]

    def facts(service: object) -> list[tuple[str, str, str, bool, bool]]:
        return [
            (m.name, m.input_type.full_name, m.output_type.full_name, m.client_streaming, m.server_streaming)
            for m in service.methods  # type: ignore[attr-defined]
        ]

    assert facts(ours) == facts(theirs)


def test_declaration_order_is_kept() -> None:
    """The JSON form of /config prints fields in declaration order, so it is part of the contract."""
    assert [field.name for field in schema.ModelConfig.DESCRIPTOR.fields] == [
        field.name for field in model_config_pb2.ModelConfig.DESCRIPTOR.fields
    ]


def test_both_pools_live_side_by_side() -> None:
    assert schema.ModelConfig.DESCRIPTOR.full_name == model_config_pb2.ModelConfig.DESCRIPTOR.full_name
    assert schema.ModelConfig is not model_config_pb2.ModelConfig
    ours = text_format.Parse('name: "m" max_batch_size: 4 dynamic_batching {}', schema.ModelConfig())
    theirs = model_config_pb2.ModelConfig.FromString(ours.SerializeToString())
    assert (theirs.name, theirs.max_batch_size, theirs.WhichOneof("scheduling_choice")) == ("m", 4, "dynamic_batching")


def test_every_file_is_in_the_descriptor_set() -> None:
    for name in PROTOS:
        assert pool._POOL.FindFileByName(name).name == name
    assert list(pool._POOL.FindServiceByName("grpc.health.v1.Health").methods_by_name) == ["Check", "Watch"]


def test_descriptor_bytes_are_those_of_the_proto_files(tmp_path) -> None:  # type: ignore[no-untyped-def]
    protoc = pytest.importorskip("grpc_tools.protoc")
    from charonia.config.proto.generate import FOLDER

    out = tmp_path / "d.binpb"
    assert protoc.main(["protoc", f"-I{FOLDER}", "--include_imports", f"--descriptor_set_out={out}", *PROTOS]) == 0
    assert out.read_bytes() == pool.FILE_DESCRIPTOR_SET
