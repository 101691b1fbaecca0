"""The wire with everything that serves it: listeners, ingress, control plane, and the table for health questions."""

import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from itertools import count
from typing import TYPE_CHECKING

from charonia._wire import WireOptions, WireServer
from charonia.core.errors import InvalidArgumentError, UnavailableError
from charonia.core.protocols import Bell
from charonia.core.shelf import Shelf
from charonia.core.threads import SupervisedThread
from charonia.frontend.access_log import open_access_log
from charonia.frontend.control.mounts import Mounts
from charonia.frontend.gateways import Gateways
from charonia.frontend.generate.request import Limits
from charonia.frontend.ingress import Ingress, WireBell
from charonia.frontend.interior import Interior
from charonia.frontend.wire_remarks import WireRemarks
from charonia.frontend.wire_shelf import WireShelf
from charonia.options import GATEWAY_ADDRESS, ServerOptions, is_unix_socket

if TYPE_CHECKING:
    from charonia.control.handlers import Handlers
    from charonia.frontend.control.loop import ControlLoop

NO_ENVIRONMENT: Mapping[str, str] = {}

Readiness = Mapping[tuple[str, str], tuple[bool, int, bool]]
"""By (name, version as text, "" for the default): ready, the route of its idle instances, decoupled."""

Shelves = Mapping[tuple[str, str], Shelf]
"""By the same names."""

# What answers of requests that were failed at the end of the exit time-out have to reach their clients.
_FLUSH_S = 1.0
# The control plane may be in the middle of an import or of an answer; beyond this it is left behind.
_JOIN_S = 5.0
# The same once the exit time-out is over: a load that hangs will not end now.
_LATE_JOIN_S = 0.5


class Doors:
    """The network side of one server. Made closed; `open` binds.

    Args:
        environment: has what SageMaker and Vertex AI say there.

    Raises:
        InvalidArgumentError: the environment lacks what a door needs.
    """

    def __init__(
        self,
        options: ServerOptions,
        settings: WireOptions,
        interior: Interior,
        environment: Mapping[str, str] = NO_ENVIRONMENT,
    ) -> None:
        self._options = options
        self._interior = interior
        self._access = open_access_log(options.access_log)
        self._wire = WireServer(settings)
        self._ingress = Ingress(
            self._wire,
            interior.submitter,
            interior.directory,
            interior.on_death,
            interior.log,
            interior.regions,
            interior.tracer,
            forwards=options.forwards_headers,
        )
        self._gateways = Gateways(options, environment, self._wire.publish_gateway)
        self._remarks = WireRemarks(self._wire, interior.log, interior.on_death) if options.uses_tls else None
        self._control: ControlLoop | None = None
        self._control_starter: SupervisedThread | None = None
        self._closer: threading.Thread | None = None
        self._flushed = True
        self._routes = count(1)
        self._shelves_lock = threading.Lock()
        self._shelves_closed_for: set[str] = set()

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
        self._gateways.open()
        if self._remarks is not None:
            self._remarks.start()
        self._interior.tracer.on_switch(self._trace)
        if self._access is not None:
            self._access.start(self._wire.take_access, self._interior.log, self._interior.on_death)

    def _trace(self, on: bool) -> None:
        self._wire.stamp(on)
        self._close_shelves("traces", on)

    def follow_log(self, verbosity: int) -> None:
        """So much is written to the log from now on."""
        self._close_shelves("log", verbosity > 0)

    def change(self, *, begun: bool) -> None:
        """The models change, and the wire gets to know by `publish` only when the new ones answer already: until the
        end of the change, what it keeps of those that were replaced is not given."""
        self._close_shelves("change", begun)

    def _close_shelves(self, reason: str, closed: bool) -> None:
        """As long as there is any reason."""
        with self._shelves_lock:  # so that the wire hears of the last change last
            if closed:
                self._shelves_closed_for.add(reason)
            else:
                self._shelves_closed_for.discard(reason)
            self._wire.close_shelves(bool(self._shelves_closed_for))

    def reopen_access_log(self) -> None:
        """Go on in a new file, after the access log's was renamed."""
        if self._access is not None:
            self._access.reopen(self._interior.log)

    def choose_default_model(self, ready: Collection[str]) -> None:
        """Once models are loaded, let Vertex AI ask the one that its requests are for. Raises as `default_model`."""
        self._gateways.choose_default_model(self._options.vertex_ai_default_model, ready)

    def serve_control(self, handlers: "Handlers", metrics_text: Callable[[], str], mounts: Mounts) -> None:
        """Answer everything that is no inference; `mounts` have the paths under their prefixes.

        Returns at once: what this needs is imported while models load, and calls that come earlier wait in the wire.
        """
        self._control_starter = SupervisedThread(
            "control-start", lambda: self._start_control(handlers, metrics_text, mounts), self._interior.on_death
        )
        self._control_starter.start()

    def _start_control(self, handlers: "Handlers", metrics_text: Callable[[], str], mounts: Mounts) -> None:
        from charonia.frontend.control_plane import Pages, control_loop

        limits = Limits(self._options.http_max_input_size, self._options.request_max_parameters)
        pages = Pages(metrics_text, mounts, self._options.allow_live_page, self._options.allow_try_it)
        self._control = control_loop(self._wire, handlers, self._interior, limits, pages, self._gateways)
        self._control.start()

    def publish(self, live: bool, ready: bool, models: Readiness, asks: bool, shelves: Shelves) -> None:
        """What health and readiness questions are answered from, from now on, and what is answered without asking.
        `asks`: there are models that have to be asked, so that the control plane answers."""
        lying = {name: shelf.shelf for name, shelf in shelves.items() if isinstance(shelf, WireShelf)}
        self._wire.publish(live, ready, models, asks, lying)

    def new_shelf(self) -> Shelf:
        """For what is cached of one model version."""
        return WireShelf(self._wire)

    def new_bell(self) -> tuple[Bell, int]:
        """A bell for the instances of one model version, and the route that `publish` knows it by."""
        route = next(self._routes)
        return WireBell(self._wire, route, self._ingress), route

    def publish_load(self, report: tuple[str, str] | None) -> None:
        """What balancers are told that ask for the server's load, as text and as JSON."""
        self._wire.publish_load(report)

    def listeners(self) -> Iterable[tuple[str, str, int | None]]:
        """(service, address, real port) of each open listener, in Triton's order; no port for a Unix socket."""
        options, ports = self._options, self._wire.ports
        for name, allowed, address, port in (
            ("GRPCInferenceService", options.allow_grpc, options.grpc_address, ports["grpc"]),
            ("HTTPService", options.allow_http, options.http_address, ports["http"]),
            ("Sagemaker HTTPService", options.allow_sagemaker, GATEWAY_ADDRESS, ports["sagemaker"]),
            ("Vertex AI HTTPService", options.allow_vertex_ai, GATEWAY_ADDRESS, ports["vertex-ai"]),
            ("Metrics Service", options.allow_metrics, options.metrics_listen_address, ports["metrics"]),
        ):
            if port is not None or (allowed and is_unix_socket(address)):
                yield name, address, port

    @property
    def ports(self) -> dict[str, int | None]:
        """The real ports of "http", "grpc" and "metrics"; None for a closed one, and for a Unix socket. Those of
        "sagemaker" and "vertex-ai" where they are open."""
        always = ("http", "grpc", "metrics")
        return {name: port for name, port in self._wire.ports.items() if port is not None or name in always}

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
            self._control_starter.finish(patience_s)
        if self._control is not None:
            self._control.stop(patience_s)
        if self._remarks is not None:
            self._remarks.join(patience_s)
        if self._access is not None:
            self._access.close(patience_s)
        return self._flushed
