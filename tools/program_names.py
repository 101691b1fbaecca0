"""What there is in the program under a name that its users know, each with the statuses that may be said of it."""

from collections.abc import Iterable, Mapping
from enum import EnumType
from types import ModuleType, SimpleNamespace
from typing import Any

STATUSES = ("works", "differs", "no effect", "not yet")
PROVEN = ("works", "differs")

Known = Mapping[str, tuple[str, ...]]
"""By name, which statuses may be said of it."""

# What the extension answers by itself, beside the service of the protocol.
STANDARD_METHODS = (
    "grpc.health.v1.Health/Check",
    "grpc.health.v1.Health/Watch",
    "grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
)


def flags() -> Known:
    from charonia.cli.flags import FLAGS, Effect

    statuses = {Effect.WORKS: PROVEN, Effect.NO_EFFECT: ("no effect",)}
    known = {f"--{name}": statuses[flag.effect] for name, flag in FLAGS.items()}
    return {**known, "--help": PROVEN, "--version": PROVEN}


def config_fields() -> Known:
    """Every field of a model's configuration, with the fields that it is in; a map's are those of its values."""
    from charonia.config.schema import ModelConfig

    found: dict[str, tuple[str, ...]] = {}

    def walk(descriptor: Any, prefix: str, outer: tuple[str, ...]) -> None:
        if descriptor.full_name in outer:
            return  # a message that contains itself
        for field in descriptor.fields:
            found[prefix + field.name] = STATUSES
            inner = field.message_type
            if inner is not None and inner.GetOptions().map_entry:
                inner = inner.fields_by_name["value"].message_type
            if inner is not None:
                walk(inner, f"{prefix}{field.name}.", (*outer, descriptor.full_name))

    walk(ModelConfig.DESCRIPTOR, "", ())
    return found


def http_endpoints() -> Known:
    """`METHOD /path` of every route of each port; a model's path stands for its versions' too."""
    from charonia.frontend.control.app import ControlApp, MetricsApp
    from charonia.frontend.control.http_answers import Endpoint
    from charonia.frontend.live.app import LiveApp
    from charonia.frontend.sagemaker import SageMakerApp

    anything: Any = SimpleNamespace()
    apps = (
        ControlApp(anything, anything, anything, anything, anything, None),
        MetricsApp(anything, anything, anything),
        SageMakerApp(anything, anything, anything, anything, anything),
        LiveApp(anything, anything, anything, anything),
    )
    found = dict(_gateways())
    for app in apps:
        for route in app.routes:
            if isinstance(route.app, Endpoint) and "/versions/{version}" not in route.path:
                found.update({f"{method} {route.path}": PROVEN for method in route.app.methods})
    return found


def _gateways() -> Known:
    """What stands for other paths on the ports of SageMaker and Vertex AI."""
    from charonia.frontend.gateways import SageMakerPaths, SageMakerSettings, VertexAiSettings

    paths: dict[str, Any] = {}
    SageMakerPaths(SageMakerSettings(), paths.update).open()
    paths.update(VertexAiSettings("$AIP_HEALTH_ROUTE", "$AIP_PREDICT_ROUTE").paths("m"))
    methods = {path: "GET" if target.startswith("/v2/health/") else "POST" for path, (target, _) in paths.items()}
    return {f"{method} {path}": PROVEN for path, method in methods.items()}


def grpc_methods() -> Known:
    from charonia.config.proto.pool import methods
    from charonia.frontend.control.rpc import SERVICE

    return dict.fromkeys((*methods(SERVICE), *STANDARD_METHODS), PROVEN)


def metrics() -> Known:
    """The families of the server itself; one that is always 0 has no effect."""
    from charonia.observe.metrics import OWN_NAMES, PINNED_NAMES

    return {name: ("no effect",) if name in PINNED_NAMES else PROVEN for name in OWN_NAMES}


def extensions() -> Known:
    """Those of the protocol, as the server's metadata names them."""
    from charonia.control.metadata import EXTENSIONS

    return dict.fromkeys(EXTENSIONS, PROVEN)


def backend_settings() -> Known:
    """`<backend>,<setting>` of `--backend-config`; what backends of others have is theirs."""
    from charonia.cli.backend_settings import SETTINGS

    return {f"{backend},{key}": PROVEN for backend, keys in SETTINGS.items() for key in keys}


def python_names() -> Known:
    """What models find in `pb_utils`, and the members of its classes."""
    from charonia.backends.python.child.pb_utils import build_module

    runtime: Any = SimpleNamespace(model_dir="")
    module = build_module(runtime)
    found: dict[str, tuple[str, ...]] = {}
    for name, value in _public(module):
        if isinstance(value, ModuleType):
            continue
        found[name] = PROVEN
        if isinstance(value, type):
            found.update({f"{name}.{member}": PROVEN for member, _ in _public(value)})
    return found


def _public(owner: object) -> Iterable[tuple[str, object]]:
    """Without what every exception has, and the members that an enumeration has from its values' type."""
    inherited = dir(owner.__mro__[1]) if isinstance(owner, EnumType) else dir(Exception)
    names = [name for name in dir(owner) if not (name.startswith("_") or name in inherited)]
    return [(name, getattr(owner, name)) for name in names]
