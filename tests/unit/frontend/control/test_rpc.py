import asyncio

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet

from charonia.config import service_schema as schema
from charonia.config.proto.pool import FILE_DESCRIPTOR_SET, message
from charonia.core.errors import Code, UnavailableError
from charonia.core.overrides import LoadOverrides
from charonia.frontend.control.rpc import CHECK, SERVICE, ControlRpc
from charonia.frontend.control.waiting import WaitingCalls
from charonia.observe.log import LogSettings
from charonia.observe.statistics import BatchStatistics, Duration
from charonia.testing.calls import FakeRpcCall


@pytest.fixture
def ask(handlers, log):
    rpc = ControlRpc(handlers, log, WaitingCalls())

    def send(method, message=b""):
        raw = message if isinstance(message, bytes) else message.SerializeToString()
        call = FakeRpcCall(f"/{SERVICE}/{method}", raw)
        asyncio.run(rpc.serve(call))
        assert call.answered
        return call

    send.paths, send.rpc = rpc.paths, rpc
    return send


def service_methods():
    for file in FileDescriptorSet.FromString(FILE_DESCRIPTOR_SET).file:
        for service in file.service:
            if f"{file.package}.{service.name}" == SERVICE:
                return {method.name for method in service.method}
    raise AssertionError("the service is not in the descriptors")


def test_every_method_of_the_service_has_an_answer(ask):
    assert ask.paths == {CHECK} | {f"/{SERVICE}/{method}" for method in service_methods()}
    assert len(ask.paths) == 21


def test_our_messages_are_the_clients(ask):
    """The real client's classes read our answers."""
    client = pytest.importorskip("tritonclient.grpc.service_pb2")
    assert client.ServerMetadataResponse.FromString(ask("ServerMetadata").response).name == "triton"
    request = client.ModelConfigRequest(name="id")
    assert client.ModelConfigResponse.FromString(ask("ModelConfig", request).response).config.max_batch_size == 4


def test_health(ask, server, models):
    def values():
        check = FakeRpcCall(CHECK, b"")
        asyncio.run(ask.rpc.serve(check))
        status = message("HealthCheckResponse", "grpc.health.v1").FromString(check.response).status
        live = schema.ServerLiveResponse.FromString(ask("ServerLive").response).live
        ready = schema.ServerReadyResponse.FromString(ask("ServerReady").response).ready
        return live, ready, status

    assert values() == (True, True, 1)
    server.ready = False
    assert values() == (True, False, 2)


@pytest.mark.parametrize(
    ("name", "version", "ready"),
    [("id", "", True), ("addsub", "3", True), ("addsub", "2", False), ("nope", "", False), ("late", "", False)],
)
def test_model_ready(ask, name, version, ready):
    call = ask("ModelReady", schema.ModelReadyRequest(name=name, version=version))
    assert schema.ModelReadyResponse.FromString(call.response).ready == ready


def test_model_metadata(ask):
    call = ask("ModelMetadata", schema.ModelMetadataRequest(name="addsub"))
    metadata = schema.ModelMetadataResponse.FromString(call.response)
    assert (metadata.name, list(metadata.versions), metadata.platform) == ("addsub", ["1", "3"], "onnxruntime_onnx")
    assert [(t.name, t.datatype, list(t.shape)) for t in metadata.inputs] == [
        ("INPUT0", "INT32", [4]),
        ("INPUT1", "INT32", [4]),
    ]
    assert metadata.outputs[0].datatype == "BYTES"


def test_statistics(ask, models):
    counted = models[0].statistics
    counted.success, counted.cache_hit, counted.inference_count = Duration(3, 30), Duration(1, 2), 3
    counted.batches[1] = BatchStatistics(compute_infer=Duration(3, 9))
    call = ask("ModelStatistics", schema.ModelStatisticsRequest(name="id", version="1"))
    (stats,) = schema.ModelStatisticsResponse.FromString(call.response).model_stats
    assert (stats.name, stats.version, stats.inference_count) == ("id", "1", 3)
    assert (stats.inference_stats.success.ns, stats.inference_stats.cache_hit.count) == (30, 1)
    assert (stats.batch_stats[0].batch_size, stats.batch_stats[0].compute_infer.ns) == (1, 9)
    assert stats.inference_stats.HasField("fail")
    everything = schema.ModelStatisticsResponse.FromString(ask("ModelStatistics").response)
    assert len(everything.model_stats) == 3


def test_index(ask):
    entries = schema.RepositoryIndexResponse.FromString(ask("RepositoryIndex").response).models
    assert [(e.name, e.version, e.state, e.reason) for e in entries][2:] == [
        ("bad", "1", "UNAVAILABLE", "no such file"),
        ("id", "1", "READY", ""),
        ("late", "1", "LOADING", ""),
        ("shelf", "", "", ""),
    ]
    ready = ask("RepositoryIndex", schema.RepositoryIndexRequest(ready=True))
    assert len(schema.RepositoryIndexResponse.FromString(ready.response).models) == 3


@pytest.mark.parametrize(
    ("method", "message", "code", "words"),
    [
        ("ModelMetadata", schema.ModelMetadataRequest(name="nope"), Code.NOT_FOUND, "nope"),
        ("ModelMetadata", schema.ModelMetadataRequest(), Code.NOT_FOUND, "''"),
        ("ModelConfig", schema.ModelConfigRequest(name="addsub", version="9"), Code.NOT_FOUND, "version 9"),
        ("ModelStatistics", schema.ModelStatisticsRequest(name="nope"), Code.NOT_FOUND, "nope"),
        (
            "ModelStatistics",
            schema.ModelStatisticsRequest(name="id", version="x"),
            Code.INVALID_ARGUMENT,
            "failed to get model version from specified version string 'x'",
        ),
        (
            "ModelReady",
            schema.ModelReadyRequest(name="id", version="-1"),
            Code.INVALID_ARGUMENT,
            "failed to get model version from specified version string",
        ),
        ("ServerLive", b"\xff\xff\xff", Code.INVALID_ARGUMENT, "ServerLive"),
        ("RepositoryIndex", schema.RepositoryIndexRequest(repository_name="r"), Code.UNIMPLEMENTED, "repository_name"),
        (
            "RepositoryModelLoad",
            schema.RepositoryModelLoadRequest(model_name="id", repository_name="r"),
            Code.UNIMPLEMENTED,
            "repository_name",
        ),
        (
            "RepositoryModelUnload",
            schema.RepositoryModelUnloadRequest(model_name="id", repository_name="r"),
            Code.UNIMPLEMENTED,
            "repository_name",
        ),
        ("SystemSharedMemoryRegister", b"", Code.INVALID_ARGUMENT, "'region name' is necessary"),
        ("CudaSharedMemoryRegister", b"", Code.INVALID_ARGUMENT, "'region name' is necessary"),
        ("TraceSetting", schema.TraceSettingRequest(model_name="nope"), Code.NOT_FOUND, "nope"),
        ("ModelInfer", b"", Code.UNIMPLEMENTED, "inference"),
        ("Nonsense", b"", Code.UNIMPLEMENTED, "Nonsense"),
    ],
)
def test_refusals(ask, method, message, code, words):
    failure = ask(method, message).failure
    assert failure is not None
    assert failure[0] == code
    assert words in failure[1]


def test_a_fault_is_answered_and_logged(ask, models, log):
    models[0].statistics = None
    code, sentence = ask("ModelStatistics", schema.ModelStatisticsRequest(name="id")).failure
    assert code == Code.INTERNAL
    assert "ModelStatistics" in sentence
    assert "Traceback" in log.errors[0]


def test_load_and_unload(ask, control):
    load = schema.RepositoryModelLoadRequest(model_name="id")
    load.parameters["config"].string_param = "{}"
    load.parameters["file:1/model.onnx"].bytes_param = b"\x00\xff"
    assert schema.RepositoryModelLoadResponse.FromString(ask("RepositoryModelLoad", load).response)
    unload = schema.RepositoryModelUnloadRequest(model_name="id")
    unload.parameters["unload_dependents"].bool_param = True
    unload.parameters["other"].string_param = "passed over"
    assert schema.RepositoryModelUnloadResponse.FromString(ask("RepositoryModelUnload", unload).response)
    assert control.calls == [
        ("load", "id", LoadOverrides("{}", {"1/model.onnx": b"\x00\xff"})),
        ("unload", "id", True),
    ]


def test_what_load_says_reaches_the_client(ask, control):
    control.error = UnavailableError("explicit model load / unload is not allowed")
    for method, request in (
        ("RepositoryModelLoad", schema.RepositoryModelLoadRequest(model_name="id")),
        ("RepositoryModelUnload", schema.RepositoryModelUnloadRequest(model_name="id")),
    ):
        assert ask(method, request).failure == (Code.UNAVAILABLE, "explicit model load / unload is not allowed")


def log_settings(**values):
    request = schema.LogSettingsRequest()
    for name, value in values.items():
        setattr(request.settings[name], *value)
    return request


def test_log_settings(ask, server_log):
    def shown(call):
        settings = schema.LogSettingsResponse.FromString(call.response).settings
        return {name: (value.WhichOneof("parameter_choice"), str(value)) for name, value in settings.items()}

    assert shown(ask("LogSettings")) == {
        "log_file": ("string_param", 'string_param: ""\n'),
        "log_info": ("bool_param", "bool_param: true\n"),
        "log_warning": ("bool_param", "bool_param: true\n"),
        "log_error": ("bool_param", "bool_param: true\n"),
        "log_verbose_level": ("uint32_param", "uint32_param: 0\n"),
        "log_format": ("string_param", 'string_param: "default"\n'),
    }
    change = log_settings(
        log_info=("bool_param", False), log_verbose_level=("uint32_param", 1), log_format=("string_param", "ISO8601")
    )
    assert shown(ask("LogSettings", change))["log_info"] == ("bool_param", "bool_param: false\n")
    assert server_log.settings == LogSettings(info=False, verbose_level=1, format="ISO8601")


def test_log_settings_that_can_not_be(ask, server_log):
    code, sentence = ask("LogSettings", log_settings(log_file=("string_param", ""))).failure
    assert (code, sentence) == (
        Code.UNIMPLEMENTED,
        "log file location can not be updated through network protocol",
    )
    assert ask("LogSettings", log_settings(log_info=("uint32_param", 1))).failure[0] == Code.INVALID_ARGUMENT
    assert server_log.settings == LogSettings()
