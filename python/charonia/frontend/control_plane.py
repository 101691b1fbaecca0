"""Puts the control plane together. Imported late: it brings starlette and protobuf's service messages."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp

from charonia._wire import WireServer, http_status
from charonia.config.json_form import config_to_json_text
from charonia.control.handlers import Handlers
from charonia.core.log import Log
from charonia.core.protocols import OnDeath, Submitter
from charonia.engine.engine import ModelDirectory
from charonia.frontend.control.app import ControlApp, MetricsApp
from charonia.frontend.control.asgi_bridge import AsgiBridge
from charonia.frontend.control.loop import ControlLoop
from charonia.frontend.control.mounts import MountedApps, Mounts
from charonia.frontend.control.rpc import ControlRpc
from charonia.frontend.control.waiting import WaitingCalls
from charonia.frontend.gateways import SageMakerPaths, VertexAiSettings
from charonia.frontend.generate.calls import Generate
from charonia.frontend.generate.request import Limits
from charonia.frontend.live.app import PREFIX as LIVE
from charonia.frontend.live.app import LiveApp
from charonia.frontend.sagemaker import SageMakerApp
from charonia.frontend.vertex_ai import VertexAiApp
from charonia.observe.traces.tracer import Tracer


@dataclass(frozen=True, slots=True)
class Pages:
    """Which pages for people there are: the live page at the metrics port, and with forms at the HTTP port."""

    live: bool = False
    try_it: bool = False


def control_loop(
    wire: WireServer,
    handlers: Handlers,
    metrics_text: Callable[[], str],
    mounts: Mounts,
    on_death: OnDeath,
    log: Log,
    submitter: Submitter,
    directory: ModelDirectory,
    limits: Limits,
    tracer: Tracer | None = None,
    pages: Pages = Pages(),
    sagemaker: SageMakerPaths | None = None,
    vertex_ai: VertexAiSettings | None = None,
) -> ControlLoop:
    """The loop over `wire`, not started."""
    waiting = WaitingCalls()
    generate = Generate(submitter, directory, http_status, log, limits, tracer)
    control = ControlApp(handlers, config_to_json_text, http_status, log, waiting, wire.metrics_port)

    def live(**more: Any) -> Mounts:
        return {LIVE: LiveApp(handlers.live, lambda: _in_hand(wire), http_status, log, **more)}

    metrics = MetricsApp(metrics_text, http_status, log)
    try_port = wire.http_port if pages.try_it else None
    apps: dict[str, ASGIApp] = {
        "http": MountedApps(control, {**mounts, **live(try_it=True)} if pages.try_it else mounts),
        "metrics": MountedApps(metrics, live(try_port=try_port)) if pages.live else metrics,
    }
    if sagemaker is not None:
        apps["sagemaker"] = SageMakerApp(handlers, sagemaker, http_status, log, waiting)
    if vertex_ai is not None:
        apps["vertex-ai"] = VertexAiApp(vertex_ai, control, metrics)
    return ControlLoop(
        wire, AsgiBridge(apps, log), ControlRpc(handlers, log, waiting), log, on_death, waiting, generate
    )


def _in_hand(wire: WireServer) -> dict[str, int]:
    counters = wire.counters()
    return {
        "open_connections": counters.open_connections,
        "waiting_calls": counters.waiting_calls,
        "unsettled_calls": counters.unsettled_calls,
        "body_bytes": counters.body_bytes,
    }
