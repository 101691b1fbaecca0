"""Every setting of a server, once. Names and defaults are those of Triton's flags, in snake case.

`cli/flags.py` has one flag for each field, and a test compares the two.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from charonia.cache.settings import parse_cache_config
from charonia.config.host_policies import host_policies
from charonia.config.rate_limits import given_resources
from charonia.core.cloud_address import is_cloud_address, parse_cloud_address
from charonia.core.errors import InvalidArgumentError
from charonia.core.restrictions import GRPC_PREFIX, Key, read_restrictions
from charonia.core.tls import TlsFiles, tls_files
from charonia.observe.metrics_config import parse_metrics_config
from charonia.observe.traces.config import parse_trace_config
from charonia.option_values import option_value

MODEL_CONTROL_MODES = ("none", "explicit", "poll")
NO_GPU = ("error", "cpu")
RATE_LIMITS = ("off", "execution_count")
COMPRESSION_LEVELS = ("none", "low", "medium", "high")
ACCESS_LOG_FORMATS = ("json", "common")
LOG_FORMATS = ("default", "ISO8601", "json")
STANDARD_OUTPUT = "-"
"""The access log's, in place of a file."""

EVERY_MODEL = "*"
UNIX_SOCKETS = ("unix:", "unix-abstract:")
"""How the address of a Unix socket begins; such a door has no port."""

GATEWAY_ADDRESS = "0.0.0.0"
"""Where the doors of SageMaker and Vertex AI listen; the platforms reach them from outside of the container."""

# What the clocks and the wire can count, and more than anybody waits or sends.
_MAX_WAIT_S = 10**9
_MAX_BYTES = 2**63 - 1
_MAX_THREADS = 1024
_MAX_COUNT = 2**31 - 1

_WIRE_RANGES = {
    "grpc_max_message_size": (1, _MAX_BYTES),
    "grpc_keepalive_time": (1, _MAX_WAIT_S * 1000),
    "grpc_keepalive_timeout": (1, _MAX_WAIT_S * 1000),
    "grpc_http2_min_recv_ping_interval_without_data": (0, _MAX_WAIT_S * 1000),
    "grpc_http2_max_ping_strikes": (0, _MAX_COUNT),
    "grpc_max_connection_age": (0, _MAX_WAIT_S * 1000),
    "grpc_max_connection_age_grace": (0, _MAX_WAIT_S * 1000),
    "max_connections": (0, _MAX_COUNT),
    "idle_timeout_secs": (0, _MAX_WAIT_S),
    "read_timeout_secs": (1, _MAX_WAIT_S),
    "write_timeout_secs": (1, _MAX_WAIT_S),
    "max_header_size": (1024, 2**24 - 1),
    "max_waiting_requests": (1, _MAX_COUNT),
    "request_memory_limit": (0, _MAX_BYTES),
    "request_max_tensors": (1, _MAX_COUNT),
    "request_max_parameters": (0, _MAX_COUNT),
    "http2_max_concurrent_streams": (1, _MAX_COUNT),
    "http2_max_control_frames": (100, _MAX_COUNT),
}
"""(least, most) of the settings that the wire counts."""

BackendConfig = Mapping[str, Mapping[str, str]]
"""Settings by backend name; "" has those for every backend."""


@dataclass(slots=True, kw_only=True)
class ServerOptions:
    """Settings of one server; sizes in bytes, times in the unit that the name says.

    Attributes:
        id: the server's name in `GET /v2`.
        drain_delay_secs: how long the command serves on, not ready, before it stops; `Server.stop` is at once.
        model_repository: folders of models, one or more; also addresses in clouds, see `core/cloud_address.py`.
        model_namespacing: whether repositories may hold models of the same name, see docs/model-namespacing.md.
        load_model: under explicit control, the models to load at start; `*` alone for all.
        no_gpu: what a KIND_GPU instance group does without a GPU: "error" refuses, "cpu" runs on the CPU.
        http_thread_count: threads of the wire that speak HTTP. One is enough for two cores' worth of requests;
            Triton's default of 8 bought nothing when measured.
        http_restricted_api, grpc_restricted_protocol: `<categories>:<key>=<secret>` each, see docs/security.md.
        http_header_forward_pattern, grpc_header_forward_pattern: regular expressions; headers in whose names they are
            found, whatever the case, become parameters of the request.
        http_server_cert: files of TLS are in PEM. Those of HTTP serve the metrics port too.
        grpc_keepalive_time: in milliseconds, as every grpc_ time here.
        grpc_max_connection_age: 0 for none, and so is the grace.
        max_connections: of HTTP and gRPC together; 0 for half of the files that the process may open.
        request_memory_limit: bytes of request bodies held at one time; 0 for half of the memory, at most 4 GiB.
        backend_config: see BackendConfig.
        sagemaker_safe_port_range: `8081-9000`: where the ports of all other doors must be; "" for anywhere.
        vertex_ai_default_model: "" for the only model that there is.
        metrics_config: settings of metrics, by "name" or "family,name".
        access_log: a file that gets a line for each request, "-" for standard output, "" for none.
        trace_config: settings of traces as the flag has them: "rate=100", "triton,file=trace.json".
        host_policy: settings of host policies, by the policy's name.
        rate_limit: whether instances wait for one another, see docs/rate-limiting.md: "off" or "execution_count".
        rate_limit_resource: how much there is of resources: `name:count` or `name:count:device`.
        cache_config: settings of the response cache, by the cache's name; empty for none.
    """

    id: str = "triton"
    exit_timeout_secs: int = 30
    drain_delay_secs: int = 0

    model_repository: Sequence[str] = ()
    exit_on_error: bool = True
    disable_auto_complete_config: bool = False
    strict_readiness: bool = True
    model_control_mode: str = "none"
    load_model: Sequence[str] = ()
    model_config_name: str = ""
    model_load_thread_count: int = 4
    model_load_retry_count: int = 0
    repository_poll_secs: int = 15
    model_namespacing: bool = False

    allow_http: bool = True
    http_address: str = "0.0.0.0"
    http_port: int = 8000
    reuse_http_port: bool = False
    http_thread_count: int = 1
    http_max_input_size: int = 67108864
    http_header_forward_pattern: str = ""
    http_restricted_api: Sequence[str] = field(default=(), repr=False)
    http_use_ssl: bool = False
    http_use_ssl_mutual: bool = False
    http_server_cert: str = ""
    http_server_key: str = ""
    http_root_cert: str = ""

    allow_grpc: bool = True
    grpc_address: str = "0.0.0.0"
    grpc_port: int = 8001
    reuse_grpc_port: bool = False
    grpc_max_message_size: int = 2147483647
    grpc_infer_response_compression_level: str = "none"
    grpc_header_forward_pattern: str = ""
    grpc_restricted_protocol: Sequence[str] = field(default=(), repr=False)
    grpc_use_ssl: bool = False
    grpc_use_ssl_mutual: bool = False
    grpc_server_cert: str = ""
    grpc_server_key: str = ""
    grpc_root_cert: str = ""
    grpc_keepalive_time: int = 7200000
    grpc_keepalive_timeout: int = 20000
    grpc_keepalive_permit_without_calls: bool = False
    grpc_http2_min_recv_ping_interval_without_data: int = 300000
    grpc_http2_max_ping_strikes: int = 2
    grpc_max_connection_age: int = 0
    grpc_max_connection_age_grace: int = 0

    max_connections: int = 0
    idle_timeout_secs: int = 3600
    read_timeout_secs: int = 60
    write_timeout_secs: int = 60
    max_header_size: int = 65536
    max_waiting_requests: int = 65536
    request_memory_limit: int = 0
    request_max_tensors: int = 16384
    request_max_parameters: int = 4096
    http2_max_concurrent_streams: int = 4096
    http2_max_control_frames: int = 10000

    allow_sagemaker: bool = False
    sagemaker_port: int = 8080
    sagemaker_safe_port_range: str = ""
    sagemaker_thread_count: int = 1

    allow_vertex_ai: bool = False
    vertex_ai_port: int = 8080
    vertex_ai_thread_count: int = 1
    vertex_ai_default_model: str = ""

    allow_live_page: bool = True
    allow_try_it: bool = False

    allow_metrics: bool = True
    metrics_address: str = ""
    metrics_port: int = 8002
    metrics_use_ssl: bool = False
    allow_cpu_metrics: bool = True
    allow_gpu_metrics: bool = True
    metrics_interval_ms: float = 2000.0
    metrics_config: Mapping[str, str] = field(default_factory=dict)

    log_verbose: int = 0
    log_info: bool = True
    log_warning: bool = True
    log_error: bool = True
    log_format: str = "default"
    log_file: str = ""
    access_log: str = ""
    access_log_format: str = "json"

    trace_config: Sequence[str] = ()

    backend_directory: str = "/opt/tritonserver/backends"
    repoagent_directory: str = "/opt/tritonserver/repoagents"
    backend_config: BackendConfig = field(default_factory=dict)
    cache_config: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    no_gpu: str = "error"
    host_policy: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    rate_limit: str = "off"
    rate_limit_resource: Sequence[str] = ()

    allow_client_shm: bool = False

    @classmethod
    def names(cls) -> tuple[str, ...]:
        return tuple(each.name for each in fields(cls))

    @classmethod
    def of(cls, **settings: Any) -> "ServerOptions":
        """Options from keywords, whose values may have any form that `option_values.py` reads.

        Raises:
            InvalidArgumentError: a keyword that is no setting, or a value of a type that it can't have.
        """
        unknown = sorted(set(settings) - set(cls.names()))
        if unknown:
            raise InvalidArgumentError(f"'{unknown[0]}' is no setting of a server; known are: {', '.join(cls.names())}")
        declared = {each.name: each.type for each in fields(cls)}
        return cls(**{name: option_value(name, declared[name], value) for name, value in settings.items()})

    def check(self) -> None:
        """Refuse settings that contradict one another, or that no server could follow.

        Raises:
            InvalidArgumentError: what is wrong, by the flag's name.
        """
        if not all(self.model_repository) or not self.model_repository:
            raise InvalidArgumentError("--model-repository must be specified: the folder that holds the models")
        for repository in self.model_repository:
            if is_cloud_address(repository):
                parse_cloud_address(repository)
        _one_of("model-control-mode", self.model_control_mode, MODEL_CONTROL_MODES)
        _one_of("no-gpu", self.no_gpu, NO_GPU)
        _one_of("rate-limit", self.rate_limit, RATE_LIMITS)
        given_resources(self.rate_limit_resource)
        host_policies(self.host_policy)
        _one_of("log-format", self.log_format, LOG_FORMATS)
        _one_of("grpc-infer-response-compression-level", self.grpc_infer_response_compression_level, COMPRESSION_LEVELS)
        self._check_load_model()
        self._check_numbers()
        parse_metrics_config(self.metrics_config)
        _one_of("access-log-format", self.access_log_format, ACCESS_LOG_FORMATS)
        parse_trace_config(self.trace_config)
        parse_cache_config(self.cache_config)
        self._check_ports()
        self._check_tls()
        self.http_keys()
        self.grpc_keys()

    def _check_tls(self) -> None:
        used = [door for door in ("http", "grpc", "metrics") if self.tls_of(door)]
        if (self.http_server_cert or self.http_server_key) and not {"http", "metrics"} & set(used):
            raise InvalidArgumentError("--http-server-cert and --http-server-key count only with --http-use-ssl=true")

    def tls_of(self, door: str) -> TlsFiles | None:
        """The files of TLS of "http", "grpc" or "metrics"; None where there is none."""
        if door == "grpc":
            files = (self.grpc_use_ssl_mutual, self.grpc_server_cert, self.grpc_server_key, self.grpc_root_cert)
            wanted = self.grpc_use_ssl or self.grpc_use_ssl_mutual
            why = "grpc-use-ssl-mutual" if self.grpc_use_ssl_mutual else "grpc-use-ssl"
            return tls_files("grpc", *files, why) if wanted else None
        files = (self.http_use_ssl_mutual, self.http_server_cert, self.http_server_key, self.http_root_cert)
        if door == "metrics":
            return tls_files("http", *files, "metrics-use-ssl") if self.metrics_use_ssl else None
        wanted = self.http_use_ssl or self.http_use_ssl_mutual
        why = "http-use-ssl-mutual" if self.http_use_ssl_mutual else "http-use-ssl"
        return tls_files("http", *files, why) if wanted else None

    @property
    def uses_tls(self) -> bool:
        return any(self.tls_of(door) for door in ("http", "grpc", "metrics"))

    @property
    def forwards_headers(self) -> bool:
        return bool(self.http_header_forward_pattern or self.grpc_header_forward_pattern)

    @property
    def writes_log_files(self) -> bool:
        """Whether there are files to open again once they were renamed."""
        return bool(self.log_file) or self.access_log not in ("", STANDARD_OUTPUT)

    def http_keys(self) -> Mapping[str, Key]:
        """What opens the restricted categories of HTTP."""
        return read_restrictions(self.http_restricted_api, "http-restricted-api")

    def grpc_keys(self) -> Mapping[str, Key]:
        return read_restrictions(self.grpc_restricted_protocol, "grpc-restricted-protocol", GRPC_PREFIX)

    @property
    def metrics_listen_address(self) -> str:
        """By default that of HTTP; beside a Unix socket, this machine alone."""
        if self.metrics_address:
            return self.metrics_address
        return "127.0.0.1" if is_unix_socket(self.http_address) else self.http_address

    def _check_load_model(self) -> None:
        if self.load_model and self.model_control_mode != "explicit":
            raise InvalidArgumentError("--load-model requires --model-control-mode=explicit")
        if EVERY_MODEL in self.load_model and len(self.load_model) > 1:
            raise InvalidArgumentError(
                f"--load-model={EVERY_MODEL} means every model and must stand alone, got {', '.join(self.load_model)}"
            )

    def _check_ports(self) -> None:
        """Port 0 is a different free one for each."""
        taken: dict[tuple[str, int], str] = {}
        safe = _port_range(self.sagemaker_safe_port_range)
        for name, service, allowed, address, port in (
            ("http", "HTTP", self.allow_http, self.http_address, self.http_port),
            ("grpc", "GRPC", self.allow_grpc, self.grpc_address, self.grpc_port),
            ("metrics", "metrics", self.allow_metrics, self.metrics_listen_address, self.metrics_port),
            ("sagemaker", "SageMaker", self.allow_sagemaker, GATEWAY_ADDRESS, self.sagemaker_port),
            ("vertex-ai", "Vertex AI", self.allow_vertex_ai, GATEWAY_ADDRESS, self.vertex_ai_port),
        ):
            if safe and allowed and self.allow_sagemaker and name != "sagemaker" and address == GATEWAY_ADDRESS:
                _check_safe(service, port, safe)
            if is_unix_socket(address):
                self._check_socket(taken, name, address)
                continue
            other = taken.setdefault((address, port), name) if allowed and port else name
            if other != name:
                raise InvalidArgumentError(
                    f"--{other}-port and --{name}-port are both {port}, at the same address {address}: choose two ports"
                )

    def _check_socket(self, taken: dict[tuple[str, int], str], name: str, address: str) -> None:
        if not address.partition(":")[2]:
            raise InvalidArgumentError(f"--{name}-address={address} must name a socket, as unix:/run/charonia.sock")
        other = taken.setdefault((address, -1), name) if getattr(self, f"allow_{name}") else name
        if other != name:
            raise InvalidArgumentError(f"--{other}-address and --{name}-address are both {address}: choose two sockets")

    def _check_numbers(self) -> None:
        for name in ("http", "grpc", "metrics", "sagemaker", "vertex_ai"):
            if getattr(self, f"allow_{name}"):  # launch lines give a door that they turn off a port that is none
                _in_range(f"{name}_port", getattr(self, f"{name}_port"), 0, 65535)
        _in_range("http_max_input_size", self.http_max_input_size, 1, _MAX_BYTES)
        for name in ("http_thread_count", "sagemaker_thread_count", "vertex_ai_thread_count"):
            _in_range(name, getattr(self, name), 1, _MAX_THREADS)
        for name, (least, most) in _WIRE_RANGES.items():
            _in_range(name, getattr(self, name), least, most)
        _in_range("model_load_thread_count", self.model_load_thread_count, 1, _MAX_THREADS)
        _in_range("model_load_retry_count", self.model_load_retry_count, 0)
        _in_range("repository_poll_secs", self.repository_poll_secs, 0, _MAX_WAIT_S)
        _in_range("exit_timeout_secs", self.exit_timeout_secs, 0, _MAX_WAIT_S)
        _in_range("drain_delay_secs", self.drain_delay_secs, 0, _MAX_WAIT_S)
        interval: object = self.metrics_interval_ms
        if not (isinstance(interval, int | float) and 0 < interval <= _MAX_WAIT_S * 1000):
            raise InvalidArgumentError(
                f"--metrics-interval-ms must be above 0 and at most {_MAX_WAIT_S * 1000}, got {interval}"
            )


def is_unix_socket(address: str) -> bool:
    return address.startswith(UNIX_SOCKETS)


def _port_range(text: str) -> tuple[int, int] | None:
    """(least, most); None for "".

    Raises:
        InvalidArgumentError: it can't be read.
    """
    if not text:
        return None
    least, _, most = text.partition("-")
    if not (least.isdecimal() and most.isdecimal() and int(least) <= int(most) <= 65535):
        raise InvalidArgumentError(f"--sagemaker-safe-port-range must be two ports as in 8081-9000, got '{text}'")
    return int(least), int(most)


def _check_safe(service: str, port: int, safe: tuple[int, int]) -> None:
    if not safe[0] <= port <= safe[1]:
        raise InvalidArgumentError(
            f"The server cannot listen to {service} requests at port {port}: --sagemaker-safe-port-range allows "
            f"{safe[0]} to {safe[1]}"
        )


def _one_of(flag: str, value: str, allowed: Sequence[str]) -> None:
    if value not in allowed:
        raise InvalidArgumentError(f"--{flag} must be one of {', '.join(allowed)}, got '{value}'")


def _in_range(name: str, value: object, least: int, most: int | None = None) -> None:
    if not isinstance(value, int) or value < least or (most is not None and value > most):
        wanted = f"at least {least}" if most is None else f"from {least} to {most}"
        raise InvalidArgumentError(f"--{name.replace('_', '-')} must be {wanted}, got {value}")
