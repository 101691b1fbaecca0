"""Every path and every method belongs to one category."""

import pytest
from starlette.routing import Route

from charonia.config.json_form import config_to_json_text
from charonia.config.proto.pool import FILE_DESCRIPTOR_SET
from charonia.core.restrictions import CATEGORIES, Key
from charonia.frontend.control.app import ControlApp
from charonia.frontend.control.waiting import WaitingCalls
from charonia.frontend.restrictions import GRPC_METHODS, HTTP_PATHS, grpc_classes, http_classes

# Answered by the wire itself.
OF_THE_WIRE = ["/v2/models/{model}/infer", "/v2/models/{model}/versions/{version}/infer"]
# No call of the protocol: it only says where metrics are.
FREE = {"/metrics"}


def matches(pattern: str, path: str) -> bool:
    """As the wire does."""
    segments, wanted = path.split("/"), pattern.split("/")
    if wanted[-1] == "**":
        return segments[: len(wanted) - 1] == wanted[:-1]
    return len(segments) == len(wanted) and all(
        want in (have, "*") for want, have in zip(wanted, segments, strict=True)
    )


def category(path: str) -> str | None:
    return next((name for name, paths in HTTP_PATHS.items() if any(matches(each, path) for each in paths)), None)


def test_every_route_has_a_category(handlers, log) -> None:
    control_app = ControlApp(handlers, config_to_json_text, lambda code: 500, log, WaitingCalls(), 8002)
    paths = {route.path for route in control_app._router.routes if isinstance(route, Route)}
    assert len(paths) > 20
    for path in sorted(paths | set(OF_THE_WIRE)):
        named = path.format(model="m", version="1", region="r", repository="x") if "{" in path else path
        assert (category(named) is None) == (path in FREE), path


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/v2", "metadata"),
        ("/v2/models/m", "metadata"),
        ("/v2/models/m/versions/1", "metadata"),
        ("/v2/models/stats", "statistics"),
        ("/v2/models/m/versions/1/stats", "statistics"),
        ("/v2/models/m/versions/1/ready", "health"),
        ("/v2/models/m/generate_stream", "inference"),
        ("/v2/models/m/trace/setting", "trace"),
        ("/v2/repository/models/m/load", "model-repository"),
        ("/v2/cudasharedmemory/region/r/register", "shared-memory"),
    ],
)
def test_categories_of_paths(path: str, name: str) -> None:
    assert category(path) == name


def test_every_method_has_a_category() -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    services = [
        service
        for file in FileDescriptorSet.FromString(FILE_DESCRIPTOR_SET).file
        for service in file.service
        if service.name == "GRPCInferenceService"
    ]
    (service,) = services
    known = [method for methods in GRPC_METHODS.values() for method in methods]
    assert sorted(known) == sorted(method.name for method in service.method)


def test_while_nothing_is_restricted_there_is_nothing_to_look_at() -> None:
    assert http_classes({}, ["/chat"]) == []
    assert grpc_classes({}) == []


def test_apps_belong_to_inference_and_standard_health_to_health() -> None:
    classes = http_classes({"inference": Key("k", "s")}, ["/chat"])
    assert [header for paths, header, _ in classes if "/chat/**" in paths] == ["k"]
    assert len(classes) == len(CATEGORIES)
    health = grpc_classes({"health": Key("k", "s")})
    assert [header for paths, header, _ in health if "/grpc.health.v1.Health/*" in paths] == ["k"]
