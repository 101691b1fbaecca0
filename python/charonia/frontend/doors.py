"""The wire with everything that serves it: listeners, ingress, control plane, and the table for health questions."""

import threading
from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import TYPE_CHECKING

from charonia._wire import WireOptions, WireServer
from charonia.core.errors import UnavailableError
from charonia.core.log import Log
from charonia.core.protocols import Bell, OnDeath, Submitter
from charonia.engine.engine import ModelDirectory
from charonia.frontend.control.mounts import Mounts
from charonia.frontend.generate.request import Limits
from charonia.frontend.ingress import Ingress, WireBell
from charonia.frontend.machine import default_max_connections, default_request_memory
from charonia.memory.regions import Regions
from charonia.options import ServerOptions

if TYPE_CHECKING:
    from charonia.control.handlers import Handlers
    from charonia.frontend.control.loop import ControlLoop

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
    ) -> None:
        self._options = options
        self._log = log
        self._submitter = submitter
        self._directory = directory
        self._on_death = on_death
        self._wire = WireServer(_wire_options(options, server_header, grpc_answer_delay_s))
        self._ingress = Ingress(self._wire, submitter, directory, on_death, log, regions)
        self._control: ControlLoop | None = None
        self._control_starter: threading.Thread | None = None
        self._closer: threading.Thread | None = None
        self._flushed = True
        self._routes = count(1)

    def open(self) -> None:
        """Listen, and take calls.

        Raises:
            UnavailableError: a port is taken, or its address is not this machine's.
        """
        try:
            self._wire.start()
        except OSError as error:
            flags = "--http-port, --grpc-port and --metrics-port choose others, 0 a free one"
            raise UnavailableError(f"{error}; {flags}") from None
        self._ingress.start()

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
            from charonia.frontend.control_plane import control_loop

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

    def listeners(self) -> Iterable[tuple[str, str, int]]:
        """(service, address, real port) of each open listener, in Triton's order."""
        options = self._options
        for name, address, port in (
            ("GRPCInferenceService", options.grpc_address, self._wire.grpc_port),
            ("HTTPService", options.http_address, self._wire.http_port),
            ("Metrics Service", options.metrics_address or options.http_address, self._wire.metrics_port),
        ):
            if port is not None:
                yield name, address, port

    @property
    def ports(self) -> dict[str, int | None]:
        """The real ports of "http", "grpc" and "metrics"; None for a closed one."""
        return {"http": self._wire.http_port, "grpc": self._wire.grpc_port, "metrics": self._wire.metrics_port}

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
        return self._flushed


def _wire_options(options: ServerOptions, server_header: str, grpc_answer_delay_s: int) -> WireOptions:
    from charonia.config.proto.pool import FILE_DESCRIPTOR_SET

    return WireOptions(
        http_address=options.http_address,
        http_port=options.http_port if options.allow_http else None,
        grpc_address=options.grpc_address,
        grpc_port=options.grpc_port if options.allow_grpc else None,
        metrics_address=options.metrics_address or options.http_address,
        metrics_port=options.metrics_port if options.allow_metrics else None,
        http_threads=options.http_thread_count,
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
        server_header=server_header,
        file_descriptor_set=FILE_DESCRIPTOR_SET,
    )
