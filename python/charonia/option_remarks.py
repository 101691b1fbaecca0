"""Settings that are taken and do nothing, or less than they seem to: a warning for each at the start."""

from pathlib import Path

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
