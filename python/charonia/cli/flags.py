"""The table of flags: all that Triton has, and the few of our own. Both commands take the same ones."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from charonia.cli.values import (
    Convert,
    address,
    boolean,
    cache_size,
    integer,
    integer_of_at_least_0,
    integer_of_at_least_1,
    lower,
    name,
    number,
    older_trace_setting,
    policy_setting,
    text,
    trace_setting,
    trace_settings,
    unlike,
    verbosity,
)
from charonia.option_values import flat_settings, merged_settings, setting


class Effect(Enum):
    """What a flag does here.

    WORKS: as documented. NO_EFFECT: accepted, so that start scripts go on working; one log line says that there is
    nothing to set.
    """

    WORKS = "works"
    NO_EFFECT = "no effect"


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag.

    Attributes:
        convert: from its text to a value; None for a flag without a value, which then means True.
        value_name: how the help shows the value.
        option: the field of ServerOptions that it sets, "" for none.
        collect: for a flag that may be repeated: from all values, in order, to the option's value.
        instead: for deprecated flags: what to use.
    """

    name: str
    help: str
    convert: Convert | None
    value_name: str
    option: str = ""
    effect: Effect = Effect.WORKS
    collect: Callable[[list[Any]], Any] | None = None
    instead: str = ""


_KINDS: dict[Convert, str] = {
    boolean: "true|false",
    integer: "N",
    integer_of_at_least_0: "N",
    integer_of_at_least_1: "N",
    number: "X",
    text: "TEXT",
    verbosity: "N",
    setting: "[NAME,]KEY=VALUE",
}


def _works(name: str, convert: Convert, help: str, value_name: str = "", option: str = "") -> Flag:
    return Flag(name, help, convert, value_name or _KINDS[convert], option or name.replace("-", "_"))


def _no_effect(name: str, convert: Convert, help: str, instead: str = "") -> Flag:
    return Flag(name, help, convert, _KINDS[convert], effect=Effect.NO_EFFECT, instead=instead)


def _trace(name: str, setting: str, help: str, value_name: str) -> Flag:
    """An older spelling of a trace setting."""
    instead = f"--trace-config={setting}={value_name}"
    convert = older_trace_setting(setting)
    return Flag(name, help, convert, value_name, "trace_config", collect=trace_settings, instead=instead)


def _list(name: str, help: str, value_name: str, option: str = "") -> Flag:
    return Flag(name, help, text, value_name, option or name.replace("-", "_"), collect=unlike)


def _secrets(name: str, help: str, what: str) -> Flag:
    return Flag(name, help, text, f"{what}:KEY=VALUE", name.replace("-", "_"), collect=tuple)


GROUPS: dict[str, tuple[Flag, ...]] = {
    "Server": (
        _works("id", text, "Name of this server, shown by GET /v2 (default: triton)."),
        _works(
            "exit-timeout-secs", integer_of_at_least_0, "How long a stop waits for requests in flight (default: 30)."
        ),
        _works(
            "drain-delay-secs",
            integer_of_at_least_0,
            "How long it serves on before a stop, not ready any more (default: 0).",
        ),
    ),
    "Logging": (
        _works("log-verbose", verbosity, "Level of detail: 0 for none (default), 1 and more for more."),
        _works("log-info", boolean, "Write informational messages (default: true)."),
        _works("log-warning", boolean, "Write warnings (default: true)."),
        _works("log-error", boolean, "Write errors (default: true)."),
        _works("log-format", text, "How lines look: default, ISO8601, or json for one object a line.", "FORMAT"),
        _works("log-file", text, "Write the log to this file instead of standard output and standard error.", "FILE"),
        _works("access-log", text, "Write a line for each request to this file; - for standard output.", "FILE"),
        _works("access-log-format", lower, "How those lines look: json (default) or common.", "FORMAT"),
    ),
    "Model repository": (
        _list("model-repository", "Folder with model folders, or s3://, gs://, as://… Repeat it for several.", "DIR"),
        _list("model-store", "Another spelling of --model-repository.", "DIR", "model_repository"),
        _works("exit-on-error", boolean, "End with exit code 1 when a model fails to load at start (default: true)."),
        Flag(
            "disable-auto-complete-config",
            "Take config files as they are; fill in nothing from the models.",
            None,
            "",
            "disable_auto_complete_config",
        ),
        _works("strict-readiness", boolean, "Ready only while all models that were asked for are (default: true)."),
        _works("model-control-mode", lower, "none (every model, default), explicit (--load-model) or poll.", "MODE"),
        _list("load-model", "Under explicit control, a model to load at start; * alone for all.", "NAME"),
        _works("model-load-thread-count", integer_of_at_least_1, "How many models load at the same time (default: 4)."),
        _works("model-load-retry-count", integer, "How often a failed load is tried again (default: 0)."),
        _works(
            "repository-poll-secs",
            integer_of_at_least_0,
            "Seconds between looks under poll control, 0 for none (default: 15).",
        ),
        _works("model-config-name", name, "Prefer a model's configs/<name>.pbtxt over its config.pbtxt.", "NAME"),
        _works("model-namespacing", boolean, "Let repositories hold models of the same name (default: false)."),
        _no_effect("enable-peer-access", boolean, "Direct copies between GPUs."),
    ),
    "HTTP": (
        _works("allow-http", boolean, "Serve HTTP (default: true)."),
        _works("http-address", address, "Address to listen at (default: 0.0.0.0).", "ADDRESS"),
        _works("http-port", integer, "Port of HTTP, 0 for a free one (default: 8000).", "PORT"),
        _works("reuse-http-port", boolean, "Share the port with other servers that do the same (default: false)."),
        _works("http-thread-count", integer_of_at_least_1, "Threads that speak HTTP (default: 1)."),
        _works("http-max-input-size", integer, "Largest request body in bytes (default: 67108864).", "BYTES"),
        _works("http-header-forward-pattern", text, "Headers with such names become parameters of requests.", "REGEX"),
        _secrets(
            "http-restricted-api", "APIs that need a header with this value. Repeat it for several groups.", "APIS"
        ),
        _works("http-use-ssl", boolean, "Serve over TLS (default: false)."),
        _works("http-use-ssl-mutual", boolean, "The same, and clients must show a certificate (default: false)."),
        _works("http-server-cert", text, "The server's certificate and those between it and a root, in PEM.", "FILE"),
        _works("http-server-key", text, "Its key, in PEM.", "FILE"),
        _works("http-root-cert", text, "Whose certificates of clients count, in PEM.", "FILE"),
    ),
    "gRPC": (
        _works("allow-grpc", boolean, "Serve gRPC (default: true)."),
        _works("grpc-address", address, "Address to listen at (default: 0.0.0.0).", "ADDRESS"),
        _works("grpc-port", integer, "Port of gRPC, 0 for a free one (default: 8001).", "PORT"),
        _works("reuse-grpc-port", boolean, "Share the port with other servers that do the same (default: false)."),
        _works(
            "grpc-header-forward-pattern", text, "Metadata with such names becomes parameters of requests.", "REGEX"
        ),
        _no_effect("grpc-infer-thread-count", integer, "Handler threads; the wire needs none."),
        _no_effect("grpc-infer-allocation-pool-size", integer, "Pooled request objects; the wire has no pool."),
        _no_effect("grpc-max-response-pool-size", integer, "Pooled responses; the wire bounds them by credits."),
        _works("grpc-use-ssl", boolean, "Serve over TLS (default: false)."),
        _works("grpc-use-ssl-mutual", boolean, "The same, and clients must show a certificate (default: false)."),
        _works("grpc-server-cert", text, "The server's certificate and those between it and a root, in PEM.", "FILE"),
        _works("grpc-server-key", text, "Its key, in PEM.", "FILE"),
        _works("grpc-root-cert", text, "Whose certificates of clients count, in PEM.", "FILE"),
        _works(
            "grpc-infer-response-compression-level",
            lower,
            "Compress answers: none (default), low, medium or high.",
            "LEVEL",
        ),
        _works("grpc-keepalive-time", integer, "Milliseconds of silence before a ping (default: 7200000).", "MS"),
        _works("grpc-keepalive-timeout", integer, "Milliseconds to wait for its answer (default: 20000).", "MS"),
        _works("grpc-keepalive-permit-without-calls", boolean, "Let clients ping without calls (default: false)."),
        _no_effect("grpc-http2-max-pings-without-data", integer, "Pings sent while there is no data."),
        _works(
            "grpc-http2-min-recv-ping-interval-without-data",
            integer,
            "Milliseconds between pings of a client; sooner is a strike (default: 300000).",
            "MS",
        ),
        _works("grpc-http2-max-ping-strikes", integer, "Strikes before a connection ends, 0 for any (default: 2)."),
        _works("grpc-max-connection-age", integer, "Milliseconds that a connection may live (default: any).", "MS"),
        _works("grpc-max-connection-age-grace", integer, "Milliseconds for its calls after that (default: any).", "MS"),
        _works("grpc-max-message-size", integer, "Largest message in bytes (default: 2147483647).", "BYTES"),
        _secrets(
            "grpc-restricted-protocol",
            "Calls that need metadata triton-grpc-protocol-KEY with this value. Repeat it for several groups.",
            "PROTOCOLS",
        ),
    ),
    "Limits": (
        _works("max-connections", integer, "Open connections (default: half of the files that may be open)."),
        _works("idle-timeout-secs", integer, "Silence before a connection ends, 0 for any time (default: 3600)."),
        _works("read-timeout-secs", integer, "Time for a request's head, and each part of its body (default: 60)."),
        _works("write-timeout-secs", integer, "How long a client may not read its answer (default: 60)."),
        _works("max-header-size", integer, "Bytes of a request's path and headers (default: 65536).", "BYTES"),
        _works("max-waiting-requests", integer, "Requests that nobody has looked at yet (default: 65536)."),
        _works(
            "request-memory-limit", integer, "Bytes of all bodies (default: half the memory, at most 4 GiB).", "BYTES"
        ),
        _works("request-max-tensors", integer, "Inputs, and outputs, of one request (default: 16384)."),
        _works("request-max-parameters", integer, "Parameters of one request or tensor (default: 4096)."),
        _works("http2-max-concurrent-streams", integer, "Calls at a time on one connection (default: 4096)."),
        _works("http2-max-control-frames", integer, "HTTP/2 frames without data between answers (default: 10000)."),
    ),
    "SageMaker": (
        _works("allow-sagemaker", boolean, "Serve what SageMaker asks of a container (default: false)."),
        _works("sagemaker-port", integer, "Port of SageMaker, 0 for a free one (default: 8080).", "PORT"),
        _works("sagemaker-safe-port-range", text, "Where the ports of all others must be (default: any).", "FROM-TO"),
        _works("sagemaker-thread-count", integer_of_at_least_1, "Threads that speak with SageMaker (default: 1)."),
    ),
    "Vertex AI": (
        _works("allow-vertex-ai", boolean, "Serve what Vertex AI asks of a container (default: by AIP_MODE)."),
        _works("vertex-ai-port", integer, "Port of Vertex AI (default: AIP_HTTP_PORT, or 8080).", "PORT"),
        _works("vertex-ai-thread-count", integer_of_at_least_1, "Threads that speak with Vertex AI (default: 1)."),
        _works("vertex-ai-default-model", text, "Model of its requests (default: the only one there is).", "NAME"),
    ),
    "Live page": (
        _works("allow-live-page", boolean, "Serve the page /live at the metrics port (default: true)."),
        _works(
            "allow-try-it", boolean, "Serve /live at the HTTP port too, with forms to send requests (default: false)."
        ),
    ),
    "Metrics": (
        _works("allow-metrics", boolean, "Serve Prometheus metrics (default: true)."),
        _works("metrics-address", address, "Address to listen at (default: as --http-address).", "ADDRESS"),
        _works("metrics-use-ssl", boolean, "Serve over TLS, with the files of HTTP (default: false)."),
        _works("metrics-port", integer, "Port of metrics, 0 for a free one (default: 8002).", "PORT"),
        _works("allow-cpu-metrics", boolean, "Include use of CPU and memory (default: true)."),
        _works("allow-gpu-metrics", boolean, "Include use of GPUs (default: true)."),
        _works("metrics-interval-ms", number, "Milliseconds between readings of CPU and GPU (default: 2000).", "MS"),
        Flag(
            "metrics-config",
            "A setting of metrics, such as counter_latencies=false. Repeat it for several.",
            setting,
            "[NAME,]KEY=VALUE",
            "metrics_config",
            collect=flat_settings,
        ),
    ),
    "Tracing": (
        Flag(
            "trace-config",
            "A setting of request traces: level, rate, count, mode; triton,file and others. Repeat it for several.",
            trace_setting,
            "[MODE,]KEY=VALUE",
            "trace_config",
            collect=trace_settings,
        ),
    ),
    "Backends": (
        _works("backend-directory", text, "Folder with Python-based backends: DIR/<name>/model.py.", "DIR"),
        Flag(
            "backend-config",
            "A setting of one backend, or of all without a name. Repeat it for several.",
            setting,
            "[NAME,]KEY=VALUE",
            "backend_config",
            collect=merged_settings,
        ),
        _works("no-gpu", text, "KIND_GPU without a GPU: error refuses (default), cpu runs on the CPU.", "error|cpu"),
    ),
    "Repository agents": (
        _works("repoagent-directory", text, "Folder with repository agents: DIR/<name>/agent.py.", "DIR"),
    ),
    "Response cache": (
        Flag(
            "cache-config",
            "A setting of the response cache, such as local,size=1048576. Repeat it for several.",
            setting,
            "NAME,KEY=VALUE",
            "cache_config",
            collect=merged_settings,
        ),
        _no_effect("cache-directory", text, "Folder with cache libraries."),
    ),
    "Rate limiter": (
        _works("rate-limit", lower, "execution_count or off (default).", "MODE"),
        _list(
            "rate-limit-resource",
            "How much there is of a resource, on each device or on one. Repeat it for several.",
            "NAME:COUNT[:DEVICE]",
        ),
    ),
    "Memory and devices": (
        _no_effect("pinned-memory-pool-byte-size", integer, "Pinned host memory for copies to GPUs."),
        _no_effect("cuda-memory-pool-byte-size", text, "GPU memory for tensors."),
        _no_effect("cuda-virtual-address-size", text, "Address space of growing states."),
        _no_effect("min-supported-compute-capability", number, "GPUs below it are not used."),
        _no_effect("buffer-manager-thread-count", integer, "Threads that copy tensors."),
        Flag(
            "host-policy",
            "A setting of a host policy: cpu-cores=0-3 binds its instances to these cores. Repeat it for several.",
            policy_setting,
            "POLICY,KEY=VALUE",
            "host_policy",
            collect=merged_settings,
        ),
        _no_effect("model-load-gpu-limit", text, "Share of GPU memory above which loads are refused."),
    ),
    "Shared memory": (_works("allow-client-shm", boolean, "Let clients register shared memory (default: false)."),),
    "Deprecated": (
        Flag(
            "strict-model-config",
            "Take config files as they are.",
            boolean,
            "true|false",
            "disable_auto_complete_config",
            instead="--disable-auto-complete-config",
        ),
        Flag(
            "response-cache-byte-size",
            "Size of the local response cache, 0 for none.",
            cache_size,
            "N",
            "cache_config",
            collect=merged_settings,
            instead="--cache-config=local,size=N",
        ),
        _trace("trace-file", "triton,file", "File of traces.", "FILE"),
        _trace("trace-level", "level", "Level of traces.", "LEVEL"),
        _trace("trace-rate", "rate", "One trace in N requests.", "N"),
        _trace("trace-count", "count", "How many traces.", "N"),
        _trace("trace-log-frequency", "triton,log-frequency", "Traces a file.", "N"),
    ),
}

FLAGS: dict[str, Flag] = {flag.name: flag for group in GROUPS.values() for flag in group}

# Triton has none of these: they don't count where a beginning of a name is looked up, so that one that is
# unambiguous there is unambiguous here.
_OWN_TLS = (
    "http-use-ssl",
    "http-use-ssl-mutual",
    "http-server-cert",
    "http-server-key",
    "http-root-cert",
    "metrics-use-ssl",
)
OWN = frozenset(
    {
        "no-gpu",
        "access-log",
        "access-log-format",
        "drain-delay-secs",
        "grpc-max-message-size",
        *_OWN_TLS,
        *(flag.name for group in ("Limits", "Live page") for flag in GROUPS[group]),
    }
)
