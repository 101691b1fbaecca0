"""Puts the control plane together. Imported late: it brings starlette and protobuf's service messages."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp

from charonia._wire import WireServer, http_status
from charonia.config.json_form import config_to_json_text
from charonia.control.handlers import Handlers
from charonia.frontend.control.app import ControlApp, MetricsApp
from charonia.frontend.control.asgi_bridge import AsgiBridge
from charonia.frontend.control.loop import ControlLoop
from charonia.frontend.control.mounts import NO_MOUNTS, MountedApps, Mounts
from charonia.frontend.control.rpc import ControlRpc
from charonia.frontend.control.waiting import WaitingCalls
from charonia.frontend.gateways import Gateways
from charonia.frontend.generate.calls import Generate
from charonia.frontend.generate.request import Limits
from charonia.frontend.interior import Interior
from charonia.frontend.live.app import PREFIX as LIVE
from charonia.frontend.live.app import LiveApp
from charonia.frontend.sagemaker import SageMakerApp
from charonia.frontend.vertex_ai import VertexAiApp


@dataclass(frozen=True, slots=True)
class Pages:
    """What there is to see beside the protocol.

    Attributes:
        metrics_text: the text of `/metrics`.
        mounts: apps of the user at the HTTP port, by prefix.
        live: whether there is a live page at the metrics port.
        try_it: whether there is one with forms at the HTTP port.
    """

    metrics_text: Callable[[], str]
    mounts: Mounts
    live: bool = False
    try_it: bool = False


def control_loop(
    wire: WireServer, handlers: Handlers, interior: Interior, limits: Limits, pages: Pages, gateways: Gateways
) -> ControlLoop:
    """The loop over `wire`, not started."""
    log, waiting = interior.log, WaitingCalls()
    generate = Generate(interior.submitter, interior.directory, http_status, log, limits, interior.tracer)
    control = ControlApp(handlers, config_to_json_text, http_status, log, waiting, wire.ports["metrics"])
    metrics = MetricsApp(pages.metrics_text, http_status, log)

    def live(**more: Any) -> Mounts:
        return {LIVE: LiveApp(handlers.live, lambda: _in_hand(wire), http_status, log, **more)}

    forms = live(try_it=True) if pages.try_it else NO_MOUNTS
    try_port = wire.ports["http"] if pages.try_it else None
    apps: dict[str, ASGIApp] = {
        "http": MountedApps(control, {**pages.mounts, **forms}),
        "metrics": MountedApps(metrics, live(try_port=try_port)) if pages.live else metrics,
    }
    if gateways.sagemaker is not None:
        apps["sagemaker"] = SageMakerApp(handlers, gateways.sagemaker, http_status, log, waiting)
    if gateways.vertex_ai is not None:
        apps["vertex-ai"] = VertexAiApp(gateways.vertex_ai, control, metrics)
    bridge, rpc = AsgiBridge(apps, log), ControlRpc(handlers, log, waiting)
    return ControlLoop(wire, bridge, rpc, log, interior.on_death, waiting, generate)


def _in_hand(wire: WireServer) -> dict[str, int]:
    counters = wire.counters()
    return {
        "open_connections": counters.open_connections,
        "waiting_calls": counters.waiting_calls,
        "unsettled_calls": counters.unsettled_calls,
        "body_bytes": counters.body_bytes,
    }
