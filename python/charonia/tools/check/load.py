"""Loads and warms up one model as the server does, in a server of its own without ports, and frees it again."""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from charonia.config.findings import Finding, Severity
from charonia.config.places import Place
from charonia.observe.log import LogSettings, ServerLog
from charonia.options import ServerOptions
from charonia.tools.check.report import Load, Report

if TYPE_CHECKING:
    from charonia.server import Server


def load_model(options: ServerOptions, name: str, report: Report) -> None:
    """Add to `report` what came of it: for each version how long it took, or why it could not be loaded."""
    from charonia.server import Server

    log = _Warnings()
    alone = replace(
        options,
        model_control_mode="explicit",
        load_model=[name],
        allow_http=False,
        allow_grpc=False,
        allow_metrics=False,
    )
    with _output_to_stderr():
        server, began = Server(alone, log), monotonic()
        try:
            server.open()
            server.load()
            seconds = monotonic() - began
            _add_loaded(server, name, report)
            _add_failed(server, options, name, seconds, report)
        finally:
            server.stop()
    known = [str(each.finding) for each in report.of(name)]
    warnings = [message for message in log.messages if not any(each in message for each in known)]
    report.add(name, [Finding(Severity.WARNING, "", None, message) for message in warnings])


def _add_loaded(server: "Server", name: str, report: Report) -> None:
    """The steps of an ensemble are loaded too, and have their own turn."""
    for model in (each for each in server.models.loaded() if each.id == name):
        seconds = model.statistics.load_duration_ns / 1e9
        samples = sum(max(1, each.count) for each in model.config.model_warmup if each.batch_size > 0)
        report.loads.append(Load(model.name, model.version, True, seconds, samples))


def _add_failed(server: "Server", options: ServerOptions, name: str, seconds: float, report: Report) -> None:
    for entry in server.models.index():
        if entry.id != name or not entry.reason:
            continue
        folder = next((Path(each, name) for each in options.model_repository if Path(each, name).is_dir()), Path(name))
        place = Place(str(folder / str(entry.version)) if entry.version is not None else str(folder))
        report.add(name, [Finding(Severity.ERROR, "", place, entry.reason)], entry.version)
        if entry.version is not None:
            report.loads.append(Load(name, entry.version, False, seconds))


class _Warnings(ServerLog):
    """A log that writes nothing and keeps the warnings."""

    def __init__(self) -> None:
        super().__init__(LogSettings(info=False, error=False, file=os.devnull))
        self.messages: list[str] = []

    def warning(self, message: str) -> None:
        self.messages.append(message)


@contextmanager
def _output_to_stderr() -> Iterator[None]:
    """What models print must not get into the report, which may be JSON; their processes inherit the descriptor."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        sys.stdout.flush()
        os.dup2(kept, 1)
        os.close(kept)
