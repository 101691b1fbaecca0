"""The wire with everything that serves it: listeners, ingress, control plane, and the table for health questions."""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from charonia._wire import WireOptions, WireServer
from charonia.core.errors import InvalidArgumentError, UnavailableError
from charonia.core.log import Log
from charonia.core.protocols import Bell, OnDeath, Submitter
from charonia.engine.engine import ModelDirectory
from charonia.frontend.access_log import open_access_log
from charonia.frontend.control.mounts import Mounts
from charonia.frontend.gateways import SageMakerPaths, SageMakerSettings, VertexAiSettings, default_model
from charonia.frontend.generate.request import Limits
from charonia.frontend.header_pattern import check_header_pattern
from charonia.frontend.ingress import Ingress, WireBell
from charonia.frontend.machine import default_max_connections, default_request_memory
from charonia.frontend.restrictions import SAGEMAKER_PATHS, grpc_classes, http_classes
from charonia.frontend.wire_remarks import WireRemarks
from charonia.memory.regions import Regions
from charonia.observe.traces.tracer import Tracer
from charonia.options import GATEWAY_ADDRESS, ServerOptions, is_unix_socket

if TYPE_CHECKING:
    from charonia.control.handlers import Handlers
    from charonia.frontend.control.loop import ControlLoop

NO_ENVIRONMENT: Mapping[str, str] = {}

Readiness = Mapping[tuple[str, str], tuple[bool, int, bool]]
"""By (name, version as text, "" for the default): ready, the route of its idle instances, decoupled."""

# What answers of requests that were failed at the end of the exit time-out have to reach their clients.
_FLUSH_S = 1.0
# The control plane may be in the middle of an import or of an answer; beyond this it is left behind.
_JOIN_S = 5.0
# The same once the exit time-out is over: a load that hangs will not end now.
_LATE_JOIN_S = 0.5


class Doors:
    """The network side of one server. Made closed; `open` binds.

    Args:
        on_death: told when one of the threads ends by a bug.
        grpc_answer_delay_s: an aid for tests of clients (`testing_aids.py`).
        regions: the shared memory that clients have registered.
        tracer: says which calls are traced.
        mounts: prefixes of apps on the HTTP port.
        environment: has what SageMaker and Vertex AI say there.

    Raises:
        InvalidArgumentError: a pattern of header names can't be read, or the environment lacks what a door needs.
    """

    def __init__(
        self,
        options: ServerOptions,
        server_header: str,
        submitter: Submitter,
        directory: ModelDirectory,
        on_death: OnDeath,
        log: Log,
        grpc_answer_delay_s: int = 0,
        regions: Regions | None = None,
        tracer: Tracer | None = None,
        mounts: Iterable[str] = (),
        environment: Mapping[str, str] = NO_ENVIRONMENT,
    ) -> None:
        self._options = options
        self._tracer = tracer
        self._access = open_access_log(options.access_log)
        self._log = log
        self._submitter = submitter
        self._directory = directory
        self._on_death = on_death
        self._wire = WireServer(_wire_options(options, server_header, grpc_answer_delay_s, mounts))
        self._ingress = Ingress(
            self._wire, submitter, directory, on_death, log, regions, tracer, forwards=options.forwards_headers
        )
        self._sagemaker = (
            SageMakerPaths(SageMakerSettings.of(environment), partial(self._wire.publish_gateway, "sagemaker"))
            if options.allow_sagemaker
            else None
        )
        self._vertex_ai = VertexAiSettings.of(environment) if options.allow_vertex_ai else None
        self._remarks = WireRemarks(self._wire, log, on_death) if options.uses_tls else None
        self._control: ControlLoop | None = None
        self._control_starter: threading.Thread | None = None
        self._closer: threading.Thread | None = None
        self._flushed = True
        self._routes = count(1)

    def open(self) -> None:
        """Listen, and take calls.

        Raises:
            UnavailableError: a port is taken, or its address is not this machine's.
            InvalidArgumentError: an address is none, or a file of TLS can't be used.
        """
        try:
            self._wire.start()
        except OSError as error:
            flags = "--http-port, --grpc-port, --metrics-port and so on choose others, 0 a free one"
            raise UnavailableError(f"{error}; {flags}") from None
        except ValueError as error:
            raise InvalidArgumentError(str(error)) from None
        self._ingress.start()
        if self._sagemaker is not None:
            self._sagemaker.open()
        if self._vertex_ai is not None:
            self._wire.publish_gateway("vertex-ai", self._vertex_ai.paths())
        if self._remarks is not None:
            self._remarks.start()
        if self._tracer is not None:
            self._tracer.on_switch(self._wire.stamp)
        if self._access is not None:
            self._access.start(self._wire.take_access, self._log, self._on_death)

    def choose_default_model(self, ready: Collection[str]) -> None:
        """Once models are loaded, let Vertex AI ask the one that its requests are for. Raises as `default_model`."""
        if self._vertex_ai is not None:
            model = default_model(self._options.vertex_ai_default_model, ready)
            self._wire.publish_gateway("vertex-ai", self._vertex_ai.paths(model))

    def serve_control(self, handlers: "Handlers", metrics_text: Callable[[], str], mounts: Mounts) -> None:
        """Answer everything that is no inference; `mounts` have the paths under their prefixes.

        Returns at once: what this needs is imported while models load, and calls that come earlier wait in the wire.
        """
        self._control_starter = threading.Thread(
            target=self._start_control, args=(handlers, metrics_text, mounts), name="control-start", daemon=True
        )
        self._control_starter.start()

    def _start_control(self, handlers: "Handlers", metrics_text: Callable[[], str], mounts: Mounts) -> None:
        try:
            from charonia.frontend.control_plane import Pages, control_loop

            limits = Limits(self._options.http_max_input_size, self._options.request_max_parameters)
            self._control = control_loop(
                self._wire,
                handlers,
                metrics_text,
                mounts,
                self._on_death,
                self._log,
                self._submitter,
                self._directory,
                limits,
                self._tracer,
                Pages(self._options.allow_live_page, self._options.allow_try_it),
                self._sagemaker,
                self._vertex_ai,
            )
            self._control.start()
        except BaseException as error:
            self._on_death("control-start", error)

    def publish(self, live: bool, ready: bool, models: Readiness, asks: bool) -> None:
        """What health and readiness questions are answered from, from now on. `asks`: there are models that have to be
        asked, so that the control plane answers."""
        self._wire.publish(live, ready, models, asks)

    def new_bell(self) -> tuple[Bell, int]:
        """A bell for the instances of one model version, and the route that `publish` knows it by."""
        route = next(self._routes)
        return WireBell(self._wire, route, self._ingress), route

    def publish_load(self, report: tuple[str, str] | None) -> None:
        """What balancers are told that ask for the server's load, as text and as JSON."""
        self._wire.publish_load(report)

    def listeners(self) -> Iterable[tuple[str, str, int | None]]:
        """(service, address, real port) of each open listener, in Triton's order; no port for a Unix socket."""
        options = self._options
        for name, allowed, address, port in (
            ("GRPCInferenceService", options.allow_grpc, options.grpc_address, self._wire.grpc_port),
            ("HTTPService", options.allow_http, options.http_address, self._wire.http_port),
            ("Sagemaker HTTPService", options.allow_sagemaker, GATEWAY_ADDRESS, self._wire.sagemaker_port),
            ("Vertex AI HTTPService", options.allow_vertex_ai, GATEWAY_ADDRESS, self._wire.vertex_ai_port),
            ("Metrics Service", options.allow_metrics, options.metrics_listen_address, self._wire.metrics_port),
        ):
            if port is not None or (allowed and is_unix_socket(address)):
                yield name, address, port

    @property
    def ports(self) -> dict[str, int | None]:
        """The real ports of "http", "grpc" and "metrics"; None for a closed one, and for a Unix socket. Those of
        "sagemaker" and "vertex-ai" where they are open."""
        ports = {"http": self._wire.http_port, "grpc": self._wire.grpc_port, "metrics": self._wire.metrics_port}
        more = {"sagemaker": self._wire.sagemaker_port, "vertex-ai": self._wire.vertex_ai_port}
        return ports | {name: port for name, port in more.items() if port is not None}

    @property
    def unsettled_calls(self) -> int:
        """Inference calls of the network that have no answer yet."""
        return self._wire.counters().unsettled_calls

    def refuse(self) -> None:
        """No new connections, and on old ones no new calls after the one that is open; those that have come go on."""
        self._wire.set_exiting()
        self._wire.stop_accepting()

    def drain(self, timeout_s: float) -> bool:
        """Wait until every call that has come is answered and its answer sent. False if the time ran out.

        The wire goes on for a moment after that, so that what is failed then still gets its answer.
        """
        self._closer = threading.Thread(target=self._shut, args=(timeout_s + _FLUSH_S,), name="wire-close", daemon=True)
        self._closer.start()
        self._closer.join(timeout_s)
        return not self._closer.is_alive()

    def _shut(self, timeout_s: float) -> None:
        try:
            self._flushed = self._wire.shutdown(timeout_s)
        finally:
            self._ingress.stop()

    def close(self, in_time: bool) -> bool:
        """End the threads, after `drain` and after the models were told to stop. False if an answer was cut off.

        Args:
            in_time: whether all went well so far; if not, what hangs is left behind sooner.
        """
        patience_s = _JOIN_S if in_time else _LATE_JOIN_S
        if self._closer is not None:
            self._closer.join()
        self._ingress.join(patience_s)
        if self._control_starter is not None:
            self._control_starter.join(patience_s)
        if self._control is not None:
            self._control.stop(patience_s)
        if self._remarks is not None:
            self._remarks.join(patience_s)
        if self._access is not None:
            self._access.close(patience_s)
        return self._flushed


def _wire_options(
    options: ServerOptions, server_header: str, grpc_answer_delay_s: int, mounts: Iterable[str]
) -> WireOptions:
    from charonia.config.proto.pool import FILE_DESCRIPTOR_SET

    check_header_pattern(options.http_header_forward_pattern, "http")
    check_header_pattern(options.grpc_header_forward_pattern, "grpc")
    return WireOptions(
        http_address=options.http_address,
        http_port=options.http_port if options.allow_http else None,
        grpc_address=options.grpc_address,
        grpc_port=options.grpc_port if options.allow_grpc else None,
        metrics_address=options.metrics_listen_address,
        metrics_port=options.metrics_port if options.allow_metrics else None,
        sagemaker_address=GATEWAY_ADDRESS,
        sagemaker_port=options.sagemaker_port if options.allow_sagemaker else None,
        vertex_ai_address=GATEWAY_ADDRESS,
        vertex_ai_port=options.vertex_ai_port if options.allow_vertex_ai else None,
        http_threads=options.http_thread_count,
        sagemaker_threads=options.sagemaker_thread_count,
        vertex_ai_threads=options.vertex_ai_thread_count,
        reuse_http_port=options.reuse_http_port,
        reuse_grpc_port=options.reuse_grpc_port,
        http_max_input_bytes=options.http_max_input_size,
        grpc_max_message_bytes=options.grpc_max_message_size,
        grpc_compression_level=options.grpc_infer_response_compression_level,
        grpc_keepalive_time_ms=options.grpc_keepalive_time,
        grpc_keepalive_timeout_ms=options.grpc_keepalive_timeout,
        grpc_keepalive_permit_without_calls=options.grpc_keepalive_permit_without_calls,
        grpc_min_recv_ping_interval_ms=options.grpc_http2_min_recv_ping_interval_without_data,
        grpc_max_ping_strikes=options.grpc_http2_max_ping_strikes,
        grpc_max_connection_age_ms=options.grpc_max_connection_age,
        grpc_max_connection_age_grace_ms=options.grpc_max_connection_age_grace,
        grpc_answer_delay_ms=grpc_answer_delay_s * 1000,
        max_connections=options.max_connections or default_max_connections(),
        idle_timeout_ms=options.idle_timeout_secs * 1000,
        read_timeout_ms=options.read_timeout_secs * 1000,
        write_timeout_ms=options.write_timeout_secs * 1000,
        max_header_bytes=options.max_header_size,
        inbox_max_calls=options.max_waiting_requests,
        body_budget_bytes=options.request_memory_limit or default_request_memory(),
        request_max_tensors=options.request_max_tensors,
        request_max_parameters=options.request_max_parameters,
        http2_max_streams=options.http2_max_concurrent_streams,
        http2_max_control_frames=options.http2_max_control_frames,
        access_log=options.access_log_format if options.access_log else "",
        http_tls=_tls(options, "http"),
        grpc_tls=_tls(options, "grpc"),
        metrics_tls=_tls(options, "metrics"),
        http_restrictions=http_classes(
            options.http_keys(), mounts, SAGEMAKER_PATHS if options.allow_sagemaker else ()
        ),
        grpc_restrictions=grpc_classes(options.grpc_keys()),
        http_forward_pattern=options.http_header_forward_pattern,
        grpc_forward_pattern=options.grpc_header_forward_pattern,
        server_header=server_header,
        file_descriptor_set=FILE_DESCRIPTOR_SET,
    )


def _tls(options: ServerOptions, door: str) -> tuple[str, str, str | None] | None:
    files = options.tls_of(door)
    return None if files is None else (files.certificate, files.key, files.client_roots)
