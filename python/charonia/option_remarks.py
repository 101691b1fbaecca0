"""Settings that are taken and do nothing, or less than they seem to: a warning for each at the start."""

from collections.abc import Sequence
from pathlib import Path

from charonia.backends.not_installed import nearest_backend
from charonia.backends.registry import BackendRegistry, embedded_backends
from charonia.config.host_policies import remarks as host_policy_remarks
from charonia.observe.traces.config import parse_trace_config
from charonia.observe.traces.setting import Mode
from charonia.options import ServerOptions


def option_remarks(options: ServerOptions) -> list[str]:
    """In words of the flags. Nothing here is a reason not to start: launch lines of Triton have such settings."""
    return [
        *host_policy_remarks(options.host_policy),
        *_resources_of_no_limiter(options),
        *_certificates_of_no_tls(options),
        *_traces_without_folder(options),
        *_folders_that_are_none(options),
        *_settings_of_no_backend(options),
    ]


def _resources_of_no_limiter(options: ServerOptions) -> list[str]:
    if not options.rate_limit_resource or options.rate_limit == "execution_count":
        return []
    return ["--rate-limit-resource has no effect without --rate-limit=execution_count"]


def _certificates_of_no_tls(options: ServerOptions) -> list[str]:
    given = options.grpc_server_cert or options.grpc_server_key or options.grpc_root_cert
    if not given or not options.allow_grpc or options.tls_of("grpc"):
        return []
    return ["gRPC is served in the clear: its certificates have no effect without --grpc-use-ssl=true"]


def _traces_without_folder(options: ServerOptions) -> list[str]:
    traces = parse_trace_config(options.trace_config)
    folder = Path(traces.file).parent
    if traces.mode is not Mode.TRITON or not traces.file or folder.is_dir():
        return []
    return [f"--trace-config=triton,file={traces.file}: there is no folder {folder}, so no trace can be written"]


def _folders_that_are_none(options: ServerOptions) -> list[str]:
    """Those of the defaults need not be there."""
    usual = ServerOptions()
    folders = {
        "backend-directory": (options.backend_directory, usual.backend_directory),
        "repoagent-directory": (options.repoagent_directory, usual.repoagent_directory),
    }
    return [
        f"--{flag}={folder}: there is no such folder, so nothing is found in it"
        for flag, (folder, default) in folders.items()
        if folder != default and not Path(folder).is_dir()
    ]


def _settings_of_no_backend(options: ServerOptions) -> list[str]:
    named = [name for name in options.backend_config if name and name not in embedded_backends()]
    if not named:  # the others are looked for in files
        return []
    known = BackendRegistry(Path(options.backend_directory), {}).names()
    return [_no_backend(name, known) for name in named if name not in known]


def _no_backend(name: str, known: Sequence[str]) -> str:
    near = nearest_backend(name, known)
    hint = f"; did you mean '{near}'?" if near else f" (there are {', '.join(known)})"
    return f"--backend-config={name},…: no backend has the name '{name}', so its settings have no effect{hint}"
