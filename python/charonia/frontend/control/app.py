"""The HTTP control routes as an ASGI app, and the app of the metrics port.

Paths are matched as sent: percent-encoding is undone in the matched names only, so `%2F` never makes a new segment,
and `//` or a slash at the end is another path, which does not exist.
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import Receive, Scope, Send

from charonia.control.handlers import Handlers
from charonia.control.repository import no_repository
from charonia.control.versions import parse_version
from charonia.core.errors import InvalidArgumentError
from charonia.core.log import Log
from charonia.frontend.control import json_answers
from charonia.frontend.control.body import Kind, parse_object
from charonia.frontend.control.http_answers import (
    Action,
    Ask,
    Endpoint,
    NotFound,
    StatusOf,
    empty_answer,
    empty_json_answer,
    error_answer,
    json_answer,
    json_text,
)
from charonia.frontend.control.load import dependents_of_body, overrides_of_body
from charonia.frontend.control.logging import change_of_body, levels_json, settings_json
from charonia.frontend.control.shared_memory import DRIVER, cuda_json, cuda_order, system_json, system_order
from charonia.frontend.control.tracing import request_of_body
from charonia.frontend.control.tracing import settings_json as trace_json
from charonia.frontend.control.waiting import WaitingCalls
from charonia.memory.region import CUDA, SYSTEM
from charonia.observe.exposition import CONTENT_TYPE

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig

_NOT_READY = 400
_MODEL_FORMS = ("/v2/models/{model}", "/v2/models/{model}/versions/{version}")

ConfigJson = Callable[["ModelConfig"], str]
"""The JSON of a model configuration: `charonia.config.json_form.config_to_json_text`."""


class RoutedApp:
    """An ASGI app that matches paths as sent; `missing` answers what matches no route."""

    def __init__(self, routes: Sequence[Route], missing: NotFound) -> None:
        self.routes = routes
        self._router = Router(routes, redirect_slashes=False, default=missing)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._router({**scope, "path": scope["raw_path"].decode("latin-1")}, receive, send)


class ControlApp(RoutedApp):
    """Serves every path of the protocol but infer, which the wire keeps to itself, and generate (`generate.py`).

    Args:
        metrics_port: where those who ask for metrics here are sent; None when it is closed.
    """

    def __init__(
        self,
        handlers: Handlers,
        config_json: ConfigJson,
        status_of: StatusOf,
        log: Log,
        waiting: WaitingCalls,
        metrics_port: int | None,
    ) -> None:
        self._handlers = handlers
        self._waiting = waiting
        self._config_json = config_json
        self._status_of = status_of
        self._log = log
        metrics = Route("/metrics", NotFound(_where_metrics_are(metrics_port)))
        super().__init__([*self._routes(), metrics], NotFound())

    def _routes(self) -> list[Route]:
        routes = [
            self._route("/v2", GET=self._server_metadata),
            self._route("/v2/health/live", GET=self._live),
            self._route("/v2/health/ready", GET=self._ready),
            self._route("/v2/models/stats", GET=self._statistics),
            self._route("/v2/repository/index", POST=self._index),
            self._route("/v2/repository/{repository}/index", POST=self._index),
            self._route("/v2/logging", GET=self._log_settings, POST=self._set_log_settings),
            self._route("/v2/models/{model}/logging", GET=self._log_levels, POST=self._set_log_levels),
            self._route("/v2/trace/setting", GET=self._trace_settings, POST=self._set_trace_settings),
            self._route("/v2/models/{model}/trace/setting", GET=self._trace_settings, POST=self._set_trace_settings),
        ]
        for form in _MODEL_FORMS:
            routes += self._model_routes(form)
        for prefix in ("/v2/repository", "/v2/repository/{repository}"):
            routes.append(self._route(f"{prefix}/models/{{model}}/load", POST=self._load))
            routes.append(self._route(f"{prefix}/models/{{model}}/unload", POST=self._unload))
        routes += self._shared_memory_routes(SYSTEM, self._system_regions, self._register_system)
        routes += self._shared_memory_routes(CUDA, self._cuda_regions, self._register_cuda)
        return routes

    def _model_routes(self, form: str) -> list[Route]:
        return [
            self._route(form, GET=self._model_metadata),
            self._route(f"{form}/ready", GET=self._model_ready),
            self._route(f"{form}/config", GET=self._config),
            self._route(f"{form}/stats", GET=self._statistics),
            *[self._route(f"{form}/{name}", POST=_elsewhere) for name in ("infer", "generate", "generate_stream")],
        ]

    def _shared_memory_routes(self, kind: str, status: Action, register: Action) -> list[Route]:
        async def unregister(ask: Ask) -> Response:
            self._handlers.shared_memory.unregister(kind, ask["region"])
            return empty_json_answer()

        routes, prefix = [], f"/v2/{kind}sharedmemory"
        for form in (prefix, f"{prefix}/region/{{region}}"):
            routes.append(self._route(f"{form}/status", GET=status))
            routes.append(self._route(f"{form}/register", POST=register))
            routes.append(self._route(f"{form}/unregister", POST=unregister))
        return routes

    async def _system_regions(self, ask: Ask) -> Response:
        return json_answer(system_json(self._handlers.shared_memory.system(ask["region"])))

    async def _cuda_regions(self, ask: Ask) -> Response:
        return json_answer(cuda_json(self._handlers.shared_memory.cuda(ask["region"])))

    async def _register_system(self, ask: Ask) -> Response:
        self._handlers.shared_memory.check_allowed()
        self._handlers.shared_memory.register_system(ask["region"], *system_order(ask.body))
        return empty_json_answer()

    async def _register_cuda(self, ask: Ask) -> Response:
        self._handlers.shared_memory.check_allowed()
        name, order = ask["region"], cuda_order(ask.body)
        await self._waiting.run(DRIVER, lambda: self._handlers.shared_memory.register_cuda(name, *order))
        return empty_json_answer()

    def _route(self, path: str, **actions: Action) -> Route:
        return Route(path, Endpoint(actions, self._status_of, self._log))

    async def _live(self, ask: Ask) -> Response:
        return _health(self._handlers.health.live(), "the server is not live")

    async def _ready(self, ask: Ask) -> Response:
        return _health(await self._handlers.health.ready(), "the server is not ready")

    async def _model_ready(self, ask: Ask) -> Response:
        model, version = _model_version(ask)
        ready = await self._handlers.health.model_ready(model, version)
        return _health(ready, f"model '{model}'{_named(ask)} is not ready")

    async def _server_metadata(self, ask: Ask) -> Response:
        return json_answer(json_answers.server_metadata(self._handlers.metadata.server()))

    async def _model_metadata(self, ask: Ask) -> Response:
        return json_answer(json_answers.model_metadata(self._handlers.metadata.model(*_model_version(ask))))

    async def _config(self, ask: Ask) -> Response:
        return json_text(self._config_json(self._handlers.configuration.of_model(*_model_version(ask))))

    async def _statistics(self, ask: Ask) -> Response:
        return json_answer(json_answers.statistics(self._handlers.statistics.read(*_model_version(ask))))

    async def _index(self, ask: Ask) -> Response:
        body = parse_object(ask.body, "repository index", {"ready": Kind.BOOLEAN})
        entries = self._handlers.repository.index(body.get("ready", False))
        return json_answer(json_answers.repository_index(entries))

    async def _load(self, ask: Ask) -> Response:
        no_repository(ask["repository"])

        def load() -> None:
            self._handlers.repository.load(ask["model"], overrides_of_body(ask.body))

        await self._waiting.run(
            ask["model"], load
        )  # reading a body of many megabytes is no work for the event loop either
        return empty_json_answer()

    async def _unload(self, ask: Ask) -> Response:
        no_repository(ask["repository"])
        dependents = dependents_of_body(ask.body)
        await self._waiting.run(ask["model"], lambda: self._handlers.repository.unload(ask["model"], dependents))
        return empty_json_answer()

    async def _log_settings(self, ask: Ask) -> Response:
        return json_answer(settings_json(self._handlers.logging.settings()))

    async def _set_log_settings(self, ask: Ask) -> Response:
        return json_answer(settings_json(self._handlers.logging.update(change_of_body(ask.body))))

    async def _log_levels(self, ask: Ask) -> Response:
        return json_answer(levels_json(self._handlers.logging.of_model(ask["model"])))

    async def _set_log_levels(self, ask: Ask) -> Response:
        change = change_of_body(ask.body)
        return json_answer(levels_json(self._handlers.logging.update_model(ask["model"], change)))

    async def _trace_settings(self, ask: Ask) -> Response:
        tracing = self._handlers.tracing
        return json_answer(trace_json(tracing.settings(ask["model"]), tracing.config))

    async def _set_trace_settings(self, ask: Ask) -> Response:
        tracing = self._handlers.tracing
        return json_answer(trace_json(tracing.update(ask["model"], request_of_body(ask.body)), tracing.config))


class MetricsApp(RoutedApp):
    """The metrics port: `/metrics`, and an empty answer at `/` for probes."""

    def __init__(self, text: Callable[[], str], status_of: StatusOf, log: Log) -> None:
        self._text = text
        super().__init__(
            [
                Route("/", Endpoint({"GET": _nothing}, status_of, log)),
                Route("/metrics", Endpoint({"GET": self._metrics}, status_of, log)),
            ],
            NotFound("this is the metrics port (--metrics-port), which has /metrics only"),
        )

    async def _metrics(self, ask: Ask) -> Response:
        return Response(self._text(), headers={"content-type": CONTENT_TYPE})


def _where_metrics_are(port: int | None) -> str:
    if port is None:
        return "metrics are turned off (--allow-metrics)"
    return f"metrics are on port {port} (--metrics-port)"


def _model_version(ask: Ask) -> tuple[str, int]:
    return ask["model"], parse_version(ask["version"], ask["model"])


def _named(ask: Ask) -> str:
    return f" version {ask['version']}" if ask["version"] else ""


def _health(good: bool, sentence: str) -> Response:
    return empty_answer() if good else error_answer(_NOT_READY, sentence)


async def _nothing(ask: Ask) -> Response:
    return Response(b"", media_type="text/plain")


async def _elsewhere(ask: Ask) -> Response:
    raise InvalidArgumentError("this is answered on the server's HTTP port, not through the control routes")
