"""From calls on the wire to requests of the engine."""

import weakref
from collections.abc import Callable, Collection, Sequence
from typing import cast

from charonia._wire import InferCall, InputParts, WireServer
from charonia.control.versions import parse_version
from charonia.core.errors import CharoniaError, Code, InvalidArgumentError
from charonia.core.log import Log, SilentLog
from charonia.core.protocols import OnDeath, Submitter
from charonia.core.request import ANY_VERSION, InferRequest, ReplyChannel
from charonia.core.tensor import Tensor
from charonia.core.threads import SupervisedThread
from charonia.engine.engine import ModelDirectory
from charonia.engine.model import ModelVersion
from charonia.frontend.classification import ClassifyingChannel
from charonia.frontend.header_pattern import with_headers
from charonia.frontend.parameters import NO_OPTIONS, split_parameters
from charonia.frontend.raw_request import raw_input
from charonia.frontend.region_channel import RegionChannel
from charonia.frontend.regions import RegionTensors, region_tensors
from charonia.frontend.request_log import RequestLog
from charonia.frontend.wire_channel import WireChannel
from charonia.frontend.wire_flow import WireFlow
from charonia.frontend.wire_traces import WireTraces
from charonia.memory.regions import Regions
from charonia.observe.traces.tracer import Tracer

# More than any batch; a take this large is about 1 ms of work, so that stopping stays prompt.
_TAKE_AT_MOST = 128
_FOREVER_S = 86400.0

Accept = Callable[[InferCall], InferRequest | None]
"""Makes a call a request, or answers it."""


class Ingress:
    """The thread that takes calls from the wire and submits them.

    Args:
        on_death: told when the thread ends by an exception, which is a bug.
        log: gets a line for each request and each answer when details are asked for.
        regions: the shared memory that clients have registered; none by default.
        tracer: says which calls are traced; none by default.
        forwards: whether headers of calls become parameters.
    """

    def __init__(
        self,
        wire: WireServer,
        submitter: Submitter,
        directory: ModelDirectory,
        on_death: OnDeath,
        log: Log | None = None,
        regions: Regions | None = None,
        tracer: Tracer | None = None,
        *,
        forwards: bool = False,
    ) -> None:
        self._wire = wire
        self._forwards = forwards
        self._tracer = tracer
        self._traces = WireTraces(tracer) if tracer is not None else None
        self._regions = regions or Regions(log or SilentLog())
        self._submitter = submitter
        self._directory = directory
        self._live: dict[int, weakref.ref[InferRequest]] = {}
        self._requests = RequestLog(log or SilentLog())
        self._channel = WireChannel(wire, lambda key: self._live.pop(key, None), self._requests)
        self._stopping = False
        self._thread = SupervisedThread("ingress", self._run, on_death)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """End the thread. Call it after the wire's shutdown: from then on takes come back at once, with nothing."""
        self._stopping = True

    def join(self, timeout_s: float | None = None) -> None:
        self._thread.join(timeout_s)
        if self._traces is not None:
            self._traces.close()

    def _run(self) -> None:
        while not self._stopping:
            self._take()

    def _take(self) -> None:
        """One take. Its calls are forgotten before the next one waits: their bodies count as long as they are known."""
        items = self._wire.take(_TAKE_AT_MOST, _FOREVER_S)
        accept = self.acceptor()
        with self._channel.gathering():
            for item in items:
                self._handle(item, accept)

    def _handle(self, item: InferCall | int, accept: Accept) -> None:
        if isinstance(item, int):
            self._tell(item)
            return
        request = accept(item)
        if request is not None:
            self._submitter.submit(request)

    def _tell(self, key: int) -> None:
        """The call of this key has been cancelled, its client has caught up, or the answer to a traced one is gone."""
        if self._traces is not None:
            self._traces.told(key)
        reference = self._live.get(key)
        request = reference() if reference is not None else None
        if request is None:
            return
        if cast("InferCall", request.token).is_cancelled:
            self._live.pop(key, None)  # once is enough
            request.cancel()
        if isinstance(request.flow, WireFlow):
            request.flow.told()

    def acceptor(self) -> Accept:
        """How to accept the calls of one take: log and tracer are asked once for all of them."""
        is_followed = self._requests.on or (self._tracer is not None and self._tracer.on)
        return self._accept_and_follow if is_followed else self.accept

    def accept(self, call: InferCall) -> InferRequest | None:
        """The request that `call` stands for; None if it was answered here because it is malformed."""
        try:
            return self._request(call)
        except CharoniaError as error:
            self._refuse(call, error.code, str(error))
        except Exception as error:
            message = f"the request to model '{call.model_name}' failed by a fault of the server: {error!r}"
            self._refuse(call, Code.INTERNAL, message)
        return None

    def _accept_and_follow(self, call: InferCall) -> InferRequest | None:
        trace = self._traces.begin(call) if self._traces is not None else None
        request = self.accept(call)
        if request is not None:
            if trace is not None:
                trace.begin(request)
            if self._requests.on:
                self._requests.arrived(call.protocol, request)
        return request

    def _refuse(self, call: InferCall, code: int, message: str) -> None:
        self._wire.fail_batch(((call, code, message),))
        if self._requests.on:
            parts = call.unpack()
            self._requests.refused(call.protocol, parts[1], parts[3], code, parts[9])

    def _request(self, call: InferCall) -> InferRequest:
        (
            key,
            name,
            version_text,
            request_id,
            parts,
            outputs,
            classes,
            parameters,
            raw,
            arrival_ns,
            deadline_ns,
            signature,
            batch_dim,
            streams,
            has_tensor_parameters,
        ) = call.unpack()
        version = parse_version(version_text, name) if version_text else ANY_VERSION
        self._check_defect(call, name, version)
        if raw:
            tensor = raw_input(self._directory.find(name, version), parts[0][3])
            inputs, signature = {tensor.name: tensor}, 0
        else:
            inputs = {part[0]: Tensor(*part) for part in parts}
            if len(inputs) != len(parts):
                raise self._duplicate([part[0] for part in parts], name, version)
        if self._forwards:
            parameters = with_headers(parameters or {}, call.forwarded)
        options = split_parameters(parameters) if parameters else NO_OPTIONS
        channel: ReplyChannel = (
            ClassifyingChannel(self._channel, classes, _labels, _batched) if classes else self._channel
        )
        if has_tensor_parameters:
            in_regions = self._in_regions(call, name, version, parts, bool(outputs), classes or ())
            if in_regions is not None:
                inputs.update(in_regions.inputs)
                channel = RegionChannel(channel, in_regions)
        request = InferRequest(
            name,
            version,
            inputs,
            channel,
            arrival_ns,
            request_id,
            outputs,
            options.others,
            deadline_ns,
            options.priority,
            options.timeout_us,
            options.correlation_id,
            options.flags,
            call,
            signature,
            batch_dim,
            streams,
            WireFlow(call) if streams else None,
        )
        self._live[key] = weakref.ref(request)
        # Its cancellation may have been taken by another thread before the line above: then nobody knew the request.
        request.cancelled = call.is_cancelled
        return request

    def _in_regions(
        self,
        call: InferCall,
        name: str,
        version: int,
        parts: Sequence[InputParts],
        asks_outputs: bool,
        classes: Collection[str],
    ) -> RegionTensors | None:
        try:
            return region_tensors(call, name, parts, asks_outputs, classes, self._regions)
        except CharoniaError:
            self._directory.find(name, version)  # an unknown model is the more helpful answer
            raise

    def _check_defect(self, call: InferCall, name: str, version: int) -> None:
        defect = call.defect
        if defect is not None:
            self._directory.find(name, version)  # an unknown model is the more helpful answer
            raise _defect_error(*defect)

    def _duplicate(self, names: Sequence[str], model: str, version: int) -> CharoniaError:
        self._directory.find(model, version)
        twice = next(name for name in names if names.count(name) > 1)
        return InvalidArgumentError(f"input '{twice}' already exists in request for model '{model}'")


def _labels(request: InferRequest, output: str) -> Sequence[str]:
    model = request.admission
    return model.labels.get(output, ()) if isinstance(model, ModelVersion) else ()


def _batched(request: InferRequest) -> bool:
    model = request.admission
    return isinstance(model, ModelVersion) and model.config.max_batch_size > 0


def _defect_error(code: int, message: str) -> CharoniaError:
    if code == Code.INVALID_ARGUMENT:
        return InvalidArgumentError(message)
    error = _CodedError(message)
    error.code = Code(code)  # type: ignore[misc]
    return error


class _CodedError(CharoniaError):
    """A defect that the wire found, with the wire's code."""


class WireBell:
    """The bell of a model whose idle instances wait in the wire's inbox: a call wakes one directly."""

    def __init__(self, wire: WireServer, route: int, ingress: Ingress) -> None:
        self._wire = wire
        self._route = route
        self._ingress = ingress

    def wait(self, timeout_s: float | None) -> Sequence[InferRequest]:
        return self._accepted(_FOREVER_S if timeout_s is None else timeout_s)

    def poll(self) -> Sequence[InferRequest]:
        return self._accepted(0.0)

    def _accepted(self, timeout_s: float) -> Sequence[InferRequest]:
        calls = self._wire.take_route(self._route, _TAKE_AT_MOST, timeout_s)
        if not calls:
            return ()
        accept = self._ingress.acceptor()
        return [request for call in calls if (request := accept(call)) is not None]

    def ring(self, count: int = 1) -> None:
        self._wire.wake_route(self._route, count)
