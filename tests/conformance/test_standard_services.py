"""gRPC's own services, by their own clients: `grpc.health.v1` and server reflection."""

import grpc
import pytest
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_health.v1 import health_pb2, health_pb2_grpc
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


def test_reflection_of_what_is_not_there(channel):
    with pytest.raises((KeyError, grpc.RpcError)) as refused:
        ProtoReflectionDescriptorDatabase(channel).FindFileContainingSymbol("inference.Nope")
    assert "inference.Nope" in str(refused.value)
