"""What a stop waits for: every request that was accepted is answered."""

from collections.abc import Sequence
from time import monotonic
from typing import TYPE_CHECKING

from charonia.core.log import Log
from charonia.engine.model import ModelVersion

if TYPE_CHECKING:
    from charonia.frontend.doors import Doors


def drain(models: Sequence[ModelVersion], doors: "Doors | None", log: Log, timeout_s: float, limit_s: int) -> bool:
    """Wait until nothing is in flight. False if the time ran out; what is left is logged then.

    Args:
        doors: None for a server without ports.
        timeout_s: what is left of `limit_s`, the exit time-out.
    """
    deadline_s = monotonic() + timeout_s
    for model in models:
        model.hasten()
    waiting = max(sum(model.in_flight for model in models), doors.unsettled_calls if doors is not None else 0)
    log.info(f"Waiting for in-flight requests to complete: {waiting} now, up to {timeout_s:.0f} s")
    drained = doors.drain(timeout_s) if doors is not None else True
    idle = [model.wait_idle(max(0.0, deadline_s - monotonic())) for model in models]
    if not all(idle):
        _log_unanswered(models, log, limit_s)
    return drained and all(idle)


def _log_unanswered(models: Sequence[ModelVersion], log: Log, limit_s: int) -> None:
    for model in models:
        count = model.in_flight
        if count:
            requests = "1 request that is" if count == 1 else f"{count} requests that are"
            log.error(
                f"model '{model.name}' version {model.version} still has {requests} not answered to the end, when "
                f"the exit timeout of {limit_s} s is over"
            )
