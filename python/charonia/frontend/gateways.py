"""The doors of platforms that run containers: what their paths stand for, as the wire is to know it.

A path that stands for one of HTTP is answered by the wire and the engine as that one. Whatever else a platform asks for
goes to its app, `sagemaker.py` or `vertex_ai.py`.
"""

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import quote

from charonia.core.errors import InvalidArgumentError, UnavailableError
from charonia.options import ServerOptions

Paths = Mapping[str, tuple[str, Sequence[tuple[str, int]]]]
"""By path: the path of HTTP, and the statuses of failures by words in them; see `WireServer.publish_gateway`."""
Publish = Callable[[Paths], None]

AS_HTTP: Sequence[tuple[str, int]] = ()

INSUFFICIENT_STORAGE = 507
OUT_OF_MEMORY = (
    "out of memory",
    "Out of memory",
    "Out Of Memory",
    "OUT_OF_MEMORY",
    "OutOfMemory",
    "MemoryError",
    "OOM",
    "Dst tensor is not initialized",
    "Src tensor is not initialized",
    "CUDNN_STATUS_NOT_INITIALIZED",
    "CUBLAS_STATUS_ALLOC_FAILED",
    "CUBLAS_STATUS_NOT_INITIALIZED",
    "ailed to allocate memory",
    "No space left on device",
)
"""How frameworks say that there is no memory left. SageMaker unloads other models when it gets status 507."""
OF_MULTI_MODEL = (*((words, INSUFFICIENT_STORAGE) for words in OUT_OF_MEMORY), ("", 400))

_HEALTH = {"ready": "/v2/health/ready", "live": "/v2/health/live"}
_INFERENCES = ("infer", "generate", "generate_stream")
_MODELS = "/opt/ml/models"
DEFAULT_MODEL = "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME"


@dataclass(frozen=True, slots=True)
class SageMakerSettings:
    """
    Attributes:
        model: what `/invocations` asks; "" for none.
        ping: what `/ping` tells: "ready" or "live".
        inference: what `/invocations` is: "infer", "generate" or "generate_stream".
        models: the folder below which the models of a multi-model endpoint lie.
    """

    model: str = ""
    ping: str = "ready"
    inference: str = "infer"
    models: str = _MODELS

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "SageMakerSettings":
        """From the variables that SageMaker's users set.

        Raises:
            InvalidArgumentError: one has a value that means nothing.
        """
        settings = cls(
            environment.get(DEFAULT_MODEL, ""),
            environment.get("SAGEMAKER_TRITON_PING_MODE") or "ready",
            environment.get("SAGEMAKER_TRITON_INFERENCE_TYPE") or "infer",
            environment.get("CHARONIA_SAGEMAKER_MODELS", "").rstrip("/") or _MODELS,
        )
        _check("SAGEMAKER_TRITON_PING_MODE", settings.ping, _HEALTH)
        _check("SAGEMAKER_TRITON_INFERENCE_TYPE", settings.inference, _INFERENCES)
        return settings


class SageMakerPaths:
    """Publishes the paths of SageMaker, which change as models are loaded and unloaded by it. For any thread."""

    def __init__(self, settings: SageMakerSettings, publish: Publish) -> None:
        self.models = settings.models
        self._publish = publish
        self._lock = threading.Lock()
        self._paths: dict[str, tuple[str, Sequence[tuple[str, int]]]] = {"/ping": (_HEALTH[settings.ping], AS_HTTP)}
        if settings.model:
            self._paths["/invocations"] = inference_path(settings.model, settings.inference), AS_HTTP

    def open(self) -> None:
        """Publish what does not change."""
        with self._lock:
            self._publish(self._paths)

    def add(self, name: str, model: str) -> None:
        """From now on `/models/<name>/invoke` asks this model."""
        with self._lock:
            self._paths[_invoke(name)] = inference_path(model), OF_MULTI_MODEL
            self._publish(self._paths)

    def remove(self, name: str) -> None:
        with self._lock:
            self._paths.pop(_invoke(name), None)
            self._publish(self._paths)


@dataclass(frozen=True, slots=True)
class VertexAiSettings:
    """
    Attributes:
        health: the path of the health checks.
        predict: the path of the requests.
    """

    health: str
    predict: str

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "VertexAiSettings":
        """From the variables that Vertex AI starts a container with.

        Raises:
            InvalidArgumentError: one is missing, or is no path.
        """
        predict, health = environment.get("AIP_PREDICT_ROUTE", ""), environment.get("AIP_HEALTH_ROUTE", "")
        # Scripts look for these beginnings, the first name of which is written so.
        for route, name, written in (
            (predict, "AIP_PREDICT_ROUTE", "API_PREDICT_ROUTE"),
            (health, "AIP_HEALTH_ROUTE", "AIP_HEALTH_ROUTE"),
        ):
            if not route:
                raise InvalidArgumentError(
                    f"{written} is not defined for Vertex AI endpoint: set {name}, or --allow-vertex-ai=false"
                )
            if not route.startswith("/"):
                raise InvalidArgumentError(f"{name} must be a path such as /v1/predict, got '{route}'")
        if predict == health:
            raise InvalidArgumentError(f"AIP_PREDICT_ROUTE and AIP_HEALTH_ROUTE must be two paths, got '{predict}'")
        return cls(health, predict)

    def paths(self, model: str = "") -> Paths:
        """Without a model, as long as none is chosen, there are no predictions."""
        paths: dict[str, tuple[str, Sequence[tuple[str, int]]]] = {self.health: (_HEALTH["ready"], AS_HTTP)}
        if model:
            paths[self.predict] = inference_path(model), AS_HTTP
        return paths


class Gateways:
    """The doors of SageMaker and Vertex AI, as far as they are open.

    Args:
        publish: `WireServer.publish_gateway`.

    Raises:
        InvalidArgumentError: the environment lacks what a door needs.
    """

    def __init__(
        self, options: ServerOptions, environment: Mapping[str, str], publish: Callable[[str, Paths], None]
    ) -> None:
        self._publish_vertex_ai = partial(publish, "vertex-ai")
        self.sagemaker = (
            SageMakerPaths(SageMakerSettings.of(environment), partial(publish, "sagemaker"))
            if options.allow_sagemaker
            else None
        )
        self.vertex_ai = VertexAiSettings.of(environment) if options.allow_vertex_ai else None

    def open(self) -> None:
        """Publish what is known before models are loaded."""
        if self.sagemaker is not None:
            self.sagemaker.open()
        if self.vertex_ai is not None:
            self._publish_vertex_ai(self.vertex_ai.paths())

    def choose_default_model(self, wanted: str, ready: Collection[str]) -> None:
        """Once they are loaded. Raises as `default_model`."""
        if self.vertex_ai is not None:
            self._publish_vertex_ai(self.vertex_ai.paths(default_model(wanted, ready)))


def default_model(wanted: str, ready: Collection[str]) -> str:
    """The model that predictions are for.

    Args:
        wanted: as the user says, "" for the only one.
        ready: the names of the models that serve.

    Raises:
        UnavailableError: it does not serve, or there is not one alone. Scripts look for the beginnings.
    """
    shown = ", ".join(sorted(ready)) or "none"
    if not wanted and len(ready) != 1:
        raise UnavailableError(
            "Expect the model repository contains only a single model if default model is not specified "
            f"(--vertex-ai-default-model); ready are: {shown}"
        )
    if wanted and wanted not in ready:
        raise UnavailableError(
            f"Expect the default model '{wanted}' is loaded (--vertex-ai-default-model); ready are: {shown}"
        )
    return wanted or next(iter(ready))


def inference_path(model: str, verb: str = "infer") -> str:
    return f"/v2/models/{quote(model, safe='')}/{verb}"


def _invoke(name: str) -> str:
    return f"/models/{name}/invoke"


def _check(variable: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        raise InvalidArgumentError(f"Invalid {variable} '{value}': must be one of {', '.join(known)}")
