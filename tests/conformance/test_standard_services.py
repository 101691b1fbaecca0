"""gRPC's own services, by their own clients: `grpc.health.v1` and server reflection."""

import grpc
import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from tests.models.gated import PATIENCE_S

SERVICE = "inference.GRPCInferenceService"


@pytest.fixture
def channel(server):
    with grpc.insecure_channel(f"127.0.0.1:{server.ports['grpc']}") as opened:
        yield opened


@pytest.mark.parametrize("service", ["", SERVICE, "any other"])
def test_health_is_about_the_server_whatever_service_is_named(channel, service):
    stub = health_pb2_grpc.HealthStub(channel)
    answer = stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=PATIENCE_S)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING


def test_watching_health(channel):
    watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=PATIENCE_S)
    assert next(iter(watch)).status == health_pb2.HealthCheckResponse.SERVING
    watch.cancel()


def test_reflection_lists_the_services(channel):
    services = ProtoReflectionDescriptorDatabase(channel).get_services()
    assert {SERVICE, "grpc.health.v1.Health"} <= set(services)


def test_reflection_describes_the_service_whole(channel):
    """A client that has no definitions of its own calls the server with what reflection tells it."""
    pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
    service = pool.FindServiceByName(SERVICE)
    methods = {method.name: method for method in service.methods}
    assert {"ServerLive", "ModelInfer", "ModelStreamInfer", "RepositoryIndex", "ModelConfig"} <= set(methods)
    request = pool.FindMessageTypeByName("inference.ModelInferRequest")
    assert request.fields_by_name["raw_input_contents"].number == 7
    assert pool.FindMessageTypeByName("inference.ModelConfig").fields_by_name["max_batch_size"].number == 4


@pytest.mark.parametrize("package", ["grpc.reflection.v1", "grpc.reflection.v1alpha"])
def test_reflection_answers_also_what_is_not_there(channel, package):
    """Each question of a stream gets its answer; an error is one, and the stream goes on."""
    ask = reflection_pb2.ServerReflectionRequest
    extension = reflection_pb2.ExtensionRequest(containing_type="inference.ModelConfig", extension_number=7)
    questions = [
        ask(file_containing_symbol="inference.Nope", host="h"),
        ask(file_by_filename="nope.proto"),
        ask(file_containing_extension=extension),
        ask(all_extension_numbers_of_type="inference.Nope"),
        ask(),
        ask(all_extension_numbers_of_type="inference.ModelConfig"),
        ask(file_containing_symbol="inference.GRPCInferenceService.ModelInfer"),
        ask(file_containing_symbol="inference.ModelConfig.max_batch_size"),
        ask(list_services=""),
    ]
    path = f"/{package}.ServerReflection/ServerReflectionInfo"
    call = channel.stream_stream(path, ask.SerializeToString, reflection_pb2.ServerReflectionResponse.FromString)
    answers = list(call(iter(questions), timeout=PATIENCE_S))
    assert [answer.original_request for answer in answers] == questions
    assert answers[0].valid_host == "h"
    assert [answer.error_response.error_code for answer in answers] == [5, 5, 5, 5, 3, 0, 0, 0, 0]
    assert "inference.Nope" in answers[0].error_response.error_message
    assert not answers[5].all_extension_numbers_response.extension_number
    files = [FileDescriptorProto.FromString(each) for each in answers[6].file_descriptor_response.file_descriptor_proto]
    known = {file.name for file in files}
    assert all(set(file.dependency) <= known for file in files)
    assert SERVICE in {service.name for service in answers[8].list_services_response.service}


def test_the_client_of_reflection_says_what_is_not_there(channel):
    with pytest.raises(KeyError, match=r"inference\.Nope"):
        ProtoReflectionDescriptorDatabase(channel).FindFileContainingSymbol("inference.Nope")
