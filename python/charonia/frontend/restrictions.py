"""Which calls belong to which category that may need a secret, as a table for the wire, which knows paths only."""

from collections.abc import Iterable, Mapping, Sequence

from charonia.core.restrictions import CATEGORIES, Key

PathClasses = list[tuple[list[str], str, str]]
"""(path patterns, header, secret), "" for a class that is free; the first that has a path decides."""

_MODEL = ("/v2/models/*", "/v2/models/*/versions/*")


def _of_models(*verbs: str) -> tuple[str, ...]:
    return tuple(f"{model}/{verb}" for verb in verbs for model in _MODEL)


# `stats` stands where a model's name may: it comes before the metadata of models.
HTTP_PATHS: Mapping[str, Sequence[str]] = {
    "statistics": ("/v2/models/stats", "/live/state", *_of_models("stats")),
    "inference": _of_models("infer", "generate", "generate_stream"),
    "health": ("/v2/health/live", "/v2/health/ready", *_of_models("ready")),
    "metadata": ("/v2", *_MODEL),
    "model-config": _of_models("config"),
    "model-repository": ("/v2/repository/**",),
    "shared-memory": ("/v2/systemsharedmemory/**", "/v2/cudasharedmemory/**"),
    "trace": ("/v2/trace/setting", *_of_models("trace/setting")),
    "logging": ("/v2/logging", *_of_models("logging")),
}

_REGION_CALLS = ("Status", "Register", "Unregister")

GRPC_METHODS: Mapping[str, Sequence[str]] = {
    "health": ("ServerLive", "ServerReady", "ModelReady"),
    "metadata": ("ServerMetadata", "ModelMetadata"),
    "inference": ("ModelInfer", "ModelStreamInfer"),
    "shared-memory": [f"{kind}SharedMemory{call}" for kind in ("System", "Cuda") for call in _REGION_CALLS],
    "model-config": ("ModelConfig",),
    "model-repository": ("RepositoryIndex", "RepositoryModelLoad", "RepositoryModelUnload"),
    "statistics": ("ModelStatistics",),
    "trace": ("TraceSetting",),
    "logging": ("LogSettings",),
}
"""Of the inference service. The standard health service belongs to `health`; reflection is free, as in Triton."""

_SERVICE = "/inference.GRPCInferenceService/"
_STANDARD_HEALTH = "/grpc.health.v1.Health/*"


SAGEMAKER_PATHS = ("/models", "/models/*")
"""Where SageMaker loads, lists and unloads models. What its other paths stand for has its category already."""


def http_classes(keys: Mapping[str, Key], mounts: Iterable[str], more: Sequence[str] = ()) -> PathClasses:
    """`mounts` are the prefixes of apps on the HTTP port: what they serve asks models, so it belongs to `inference`;
    `more` are paths that belong to `model-repository`."""
    apps = tuple(f"{prefix}/**" for prefix in mounts)
    paths = {
        **HTTP_PATHS,
        "inference": (*HTTP_PATHS["inference"], *apps),
        "model-repository": (*HTTP_PATHS["model-repository"], *more),
    }
    return _classes(paths, keys)


def grpc_classes(keys: Mapping[str, Key]) -> PathClasses:
    paths = {name: [_SERVICE + method for method in methods] for name, methods in GRPC_METHODS.items()}
    paths["health"].append(_STANDARD_HEALTH)
    return _classes(paths, keys)


def _classes(paths: Mapping[str, Sequence[str]], keys: Mapping[str, Key]) -> PathClasses:
    """Nothing at all while nothing is restricted: then the wire has nothing to look at."""
    assert paths.keys() == set(CATEGORIES)
    if not keys:
        return []
    free = Key("", "")
    chosen = ((list(patterns), keys.get(name, free)) for name, patterns in paths.items())
    return [(patterns, key.header, key.secret) for patterns, key in chosen]
