"""The tables that the log shows once all models of the start have been tried."""

import json
import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress

from charonia.backends.registry import BackendRegistry
from charonia.cache.settings import parse_cache_config
from charonia.config.rate_limits import given_resources
from charonia.options import ServerOptions
from charonia.repository.states import IndexEntry

# Of a log that is read later, in a pager or a browser.
_WIDTH_WITHOUT_TERMINAL = 140
_LEAST_COLUMN = 8
# Each finding begins with its place: `; models/m/config.pbtxt:3:5: …`.
_NEXT_FINDING = re.compile(r"; (?=[^\s;]*/[^\s;]+: |the load said: )")


def start_tables(
    options: ServerOptions,
    registry: BackendRegistry,
    index: Iterable[IndexEntry],
    protocol_version: str,
    extensions: Iterable[str],
    agents: Iterable[tuple[str, str]] = (),
) -> Sequence[str]:
    """In Triton's order: repository agents, backends, models, options.

    Args:
        protocol_version: what the server metadata give as the server's version; `extensions` are theirs too.
    """
    return (
        table(("Repository Agent", "Path"), agents),
        table(("Backend", "Path", "Config"), [_backend_row(name, options, registry) for name in registry.made()]),
        model_table(entry for entry in index if entry.state is not None),
        table(("Option", "Value"), option_rows(options, protocol_version, extensions)),
    )


def _backend_row(name: str, options: ServerOptions, registry: BackendRegistry) -> tuple[str, str, str]:
    auto_complete = str(not options.disable_auto_complete_config).lower()
    settings = {"auto-complete-config": auto_complete, **registry.config_for(name)}
    return name, "embedded", json.dumps({"cmdline": settings}, separators=(",", ":"))


def option_rows(options: ServerOptions, protocol_version: str, extensions: Iterable[str]) -> Sequence[tuple[str, str]]:
    """Triton's rows in its order, also those that have one value only here; then our own."""
    return [
        ("server_id", options.id),
        ("server_version", protocol_version),
        ("server_extensions", " ".join(extensions)),
        *((f"model_repository_path[{at}]", str(path)) for at, path in enumerate(options.model_repository)),
        ("model_control_mode", f"MODE_{options.model_control_mode.upper()}"),
        *((f"startup_models_{at}", name) for at, name in enumerate(options.load_model)),
        ("strict_model_config", str(int(options.disable_auto_complete_config))),
        ("model_config_name", options.model_config_name),
        ("rate_limit", "EXEC_COUNT" if options.rate_limit == "execution_count" else "OFF"),
        *_rate_limit_rows(options),
        ("pinned_memory_pool_byte_size", "0"),
        ("min_supported_compute_capability", "0.0"),
        ("strict_readiness", str(int(options.strict_readiness))),
        ("exit_timeout", str(options.exit_timeout_secs)),
        ("cache_enabled", str(int(parse_cache_config(options.cache_config) is not None))),
        ("no_gpu", options.no_gpu),
    ]


def _rate_limit_rows(options: ServerOptions) -> Iterable[tuple[str, str]]:
    given = given_resources(options.rate_limit_resource)
    rows = [(name, count, device) for device, counts in sorted(given.items()) for name, count in sorted(counts.items())]
    for at, (name, count, device) in enumerate(rows):
        yield f"rate_limit_resource[{at}]", f'{{"name":"{name}", "count":{count} "device":{device}}}'


def model_table(entries: Iterable[IndexEntry], width: int | None = None) -> str:
    """A row for each version, and one for each model without any: Model, Version, Status with the reason."""
    rows = [(entry.id, "-" if entry.version is None else str(entry.version), _status(entry)) for entry in entries]
    return table(("Model", "Version", "Status"), rows, width)


def _status(entry: IndexEntry) -> str:
    if entry.state is None:
        return "Not loaded"
    return f"{entry.state}: {_NEXT_FINDING.sub(chr(10), entry.reason)}" if entry.reason else str(entry.state)


def table(headers: Sequence[str], rows: Iterable[Sequence[str]], width: int | None = None) -> str:
    """A frame of dashes and bars. Cells may have several lines; columns wrap so that all fit in `width` characters.

    Args:
        width: None for the terminal's, or 140 without one.
    """
    cells = [[str(cell).rstrip("\n").split("\n") for cell in row] for row in (headers, *rows)]
    widths = _fit([max(len(line) for row in cells for line in row[i]) for i in range(len(headers))], width or _width())
    rule = "+" + "+".join("-" * (each + 2) for each in widths) + "+"
    head, *body = ("\n".join(_lines(row, widths)) for row in cells)
    return "\n".join([rule, head, rule, *body, rule])


def _width() -> int:
    """Of the terminal that shows the log: standard output, or standard error for a server in another program."""
    for descriptor in (1, 2):
        with suppress(OSError):
            return os.get_terminal_size(descriptor).columns or _WIDTH_WITHOUT_TERMINAL
    return _WIDTH_WITHOUT_TERMINAL


def _fit(widths: list[int], width: int) -> list[int]:
    """Shrink the widest columns until all of them, with their frames, fit."""
    room = width - 3 * len(widths) - 1
    while sum(widths) > room:
        widest = max(range(len(widths)), key=widths.__getitem__)
        others = sorted(widths)[-2] if len(widths) > 1 else 0
        smaller = max(_LEAST_COLUMN, widths[widest] - (sum(widths) - room), min(others, widths[widest] - 1))
        if smaller >= widths[widest]:
            break
        widths[widest] = smaller
    return widths


def _lines(row: Sequence[Sequence[str]], widths: Sequence[int]) -> Iterable[str]:
    """The printed lines of one row of cells."""
    wrapped = [
        [part for line in cell for part in _chunks(line, width)] for cell, width in zip(row, widths, strict=True)
    ]
    for at in range(max(len(cell) for cell in wrapped)):
        texts = (cell[at] if at < len(cell) else "" for cell in wrapped)
        yield "|" + "|".join(f" {text:<{width}} " for text, width in zip(texts, widths, strict=True)) + "|"


def _chunks(line: str, width: int) -> Iterable[str]:
    """Pieces of at most `width`, broken at spaces, else within a path, and only else in the middle of a word."""
    while len(line) > width:
        space, slash = line.rfind(" ", 1, width + 1), line.rfind("/", 1, width) + 1
        at = space if space > 0 else slash or width
        yield line[:at]
        line = line[at:].lstrip(" ")
    yield line
