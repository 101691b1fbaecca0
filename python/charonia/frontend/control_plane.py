"""Puts the control plane together. Imported late: it brings starlette and protobuf's service messages."""

from collections.abc import Callable

from starlette.types import ASGIApp

from charonia._wire import WireServer, http_status
from charonia.config.json_form import config_to_json_text
from charonia.control.handlers import Handlers
from charonia.core.log import Log
from charonia.core.protocols import OnDeath, Submitter
from charonia.engine.engine import ModelDirectory
from charonia.frontend.asgi_bridge import AsgiBridge
from charonia.frontend.control_app import ControlApp, MetricsApp
from charonia.frontend.control_loop import ControlLoop
from charonia.frontend.control_rpc import ControlRpc
from charonia.frontend.control_waiting import WaitingCalls
from charonia.frontend.generate import Generate
from charonia.frontend.generate_request import Limits
from charonia.frontend.mounts import MountedApps, Mounts


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
) -> ControlLoop:
    """The loop over `wire`, not started."""
    waiting = WaitingCalls()
    generate = Generate(submitter, directory, http_status, log, limits)
    control = ControlApp(handlers, config_to_json_text, http_status, log, waiting, wire.metrics_port)
    apps: dict[str, ASGIApp] = {
        "http": MountedApps(control, mounts),
        "metrics": MetricsApp(metrics_text, http_status, log),
    }
    return ControlLoop(
        wire, AsgiBridge(apps, log), ControlRpc(handlers, log, waiting), log, on_death, waiting, generate
    )
