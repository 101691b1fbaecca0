"""The tables that the log shows once all models of the start have been tried."""

import json
from collections.abc import Iterable, Sequence

from charonia.backends.registry import BackendRegistry
from charonia.options import ServerOptions
from charonia.repository.states import IndexEntry
from charonia.repository.table import model_table, table


def start_tables(options: ServerOptions, registry: BackendRegistry, index: Iterable[IndexEntry]) -> Sequence[str]:
    """In Triton's order: repository agents, backends, models, options."""
    return (
        table(("Repository Agent", "Path"), ()),
        table(("Backend", "Path", "Config"), [_backend(name, options, registry) for name in registry.made()]),
        model_table(entry for entry in index if entry.state is not None),
        table(("Option", "Value"), _options(options)),
    )


def _backend(name: str, options: ServerOptions, registry: BackendRegistry) -> tuple[str, str, str]:
    auto_complete = str(not options.disable_auto_complete_config).lower()
    settings = {"auto-complete-config": auto_complete, **registry.config_for(name)}
    return name, "embedded", json.dumps({"cmdline": settings}, separators=(",", ":"))


def _options(options: ServerOptions) -> list[tuple[str, str]]:
    return [
        ("server_id", options.id),
        *((f"model_repository_path[{at}]", str(path)) for at, path in enumerate(options.model_repository)),
        ("model_control_mode", f"MODE_{options.model_control_mode.upper()}"),
        *((f"startup_models_{at}", name) for at, name in enumerate(options.load_model)),
        ("strict_model_config", str(int(options.disable_auto_complete_config))),
        ("model_config_name", options.model_config_name),
        ("strict_readiness", str(int(options.strict_readiness))),
        ("exit_timeout", str(options.exit_timeout_secs)),
        ("no_gpu", options.no_gpu),
    ]
