"""Puts the control plane together. Imported late: it brings starlette and protobuf's service messages."""

from collections.abc import Callable

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
from charonia.frontend.generate.calls import Generate
from charonia.frontend.generate.request import Limits
from charonia.observe.traces.tracer import Tracer


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
) -> ControlLoop:
    """The loop over `wire`, not started."""
    waiting = WaitingCalls()
    generate = Generate(submitter, directory, http_status, log, limits, tracer)
    control = ControlApp(handlers, config_to_json_text, http_status, log, waiting, wire.metrics_port)
    apps: dict[str, ASGIApp] = {
        "http": MountedApps(control, mounts),
        "metrics": MetricsApp(metrics_text, http_status, log),
    }
    return ControlLoop(
        wire, AsgiBridge(apps, log), ControlRpc(handlers, log, waiting), log, on_death, waiting, generate
    )
