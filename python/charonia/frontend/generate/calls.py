"""The generate extension: JSON in, JSON or a stream of server-sent events out.

Calls are begun by the thread that takes them from the wire, and answered by the threads that reply, as inference is: no
event loop stands between a model and its reader.
"""

import re
import time
import traceback
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, cast

from charonia.control.versions import parse_version
from charonia.core.errors import CharoniaError, Code
from charonia.core.log import Log
from charonia.core.protocols import Submitter
from charonia.core.request import InferRequest
from charonia.engine.engine import ModelDirectory
from charonia.frontend.control.http_answers import StatusOf, decoded
from charonia.frontend.generate.answer import error_json
from charonia.frontend.generate.channels import EventStream, GenerateChannel, OneAnswer, plain_answer
from charonia.frontend.generate.request import Limits, Target, read_body
from charonia.frontend.generate.traced import LeavingChannel
from charonia.frontend.header_pattern import with_headers
from charonia.frontend.parameters import split_parameters
from charonia.frontend.request_log import RequestLog
from charonia.frontend.wire_flow import WireFlow
from charonia.observe.traces.record import Trace
from charonia.observe.traces.tracer import Tracer

if TYPE_CHECKING:
    from charonia._wire import HttpCall

_PATH = re.compile(r"/v2/models/([^/]+)(?:/versions/([0-9]+))?/generate(_stream)?")
# To read as much JSON takes about 1 ms; the thread that takes calls shall not be longer with one.
_SMALL_BYTES = 256 << 10


class Generate:
    """Answers generate calls.

    Args:
        status_of: the HTTP status of a canonical code.
        tracer: says which calls are traced; none by default.
    """

    def __init__(
        self,
        submitter: Submitter,
        directory: ModelDirectory,
        status_of: StatusOf,
        log: Log,
        limits: Limits,
        tracer: Tracer | None = None,
    ) -> None:
        self._submitter = submitter
        self._directory = directory
        self._status_of = status_of
        self._log = log
        self._limits = limits
        self._tracer = tracer
        self._requests = RequestLog(log)
        self._live: dict[int, InferRequest] = {}
        self._large = ThreadPoolExecutor(2, "generate-read")

    def takes(self, call: "HttpCall") -> bool:
        """Whether `call` is one of these: then it will be answered. Never blocks, never raises."""
        path = _PATH.fullmatch(call.path) if call.method == "POST" and call.listener == "http" else None
        if path is None:
            return False
        if len(call.body) <= _SMALL_BYTES:
            self._answer(call, path)
            return True
        try:
            self._large.submit(self._answer, call, path)
        except RuntimeError:  # closed
            self._refuse(call, Code.UNAVAILABLE, error_json("the server is stopping"))
        return True

    def told(self, keys: Iterable[int]) -> None:
        """The wire has news of these calls: the client has gone, or has caught up."""
        for key in keys:
            request = self._live.get(key)
            if request is None:
                continue
            if cast("HttpCall", request.token).is_disconnected:
                self._live.pop(key, None)  # once is enough
                request.cancel()
            cast("WireFlow", request.flow).told()

    def close(self) -> None:
        """After the last call was taken."""
        self._large.shutdown(wait=False, cancel_futures=True)

    def _answer(self, call: "HttpCall", path: re.Match[str]) -> None:
        try:
            self._begin(call, decoded(path[1]), path[2] or "", streams=path[3] is not None)
        except CharoniaError as error:
            self._refuse(call, error.code, error_json(error))
        except Exception as error:
            self._log.error(f"{call.path} failed by a fault of the server: {traceback.format_exc()}")
            self._refuse(call, Code.INTERNAL, error_json(f"the server failed to read this request: {error!r}"))

    def _begin(self, call: "HttpCall", name: str, version: str, *, streams: bool) -> None:
        arrival_ns = time.monotonic_ns()
        trace = self._traced(call, name, arrival_ns) if self._tracer is not None and self._tracer.on else None
        try:
            request = self._request(call, name, version, streams, arrival_ns)
        except CharoniaError as error:
            if trace is not None:
                trace.left(None)
            if self._requests.on:
                self._requests.refused("http", name, "", error.code, arrival_ns)
            raise
        if self._requests.on:
            self._requests.arrived("http", request)
        if trace is not None:
            request.channel = LeavingChannel(request.channel, trace)
            trace.begin(request)
        self._live[call.key] = request
        # Its client may have left before the line above: then nobody knew the request.
        request.cancelled = call.is_disconnected
        self._submitter.submit(request)

    def _traced(self, call: "HttpCall", model: str, now_ns: int) -> Trace | None:
        assert self._tracer is not None
        sample = self._tracer.sample(model, call.header)
        return sample and self._tracer.begin(sample, "HTTP", call.begun_ns, call.arrival_ns or now_ns)

    def _request(self, call: "HttpCall", name: str, version_text: str, streams: bool, arrival_ns: int) -> InferRequest:
        version = parse_version(version_text, name)
        model = self._directory.find(name, version)
        body = read_body(call.body, Target(name, model.inputs, model.config.max_batch_size > 0), self._limits)
        options = split_parameters(with_headers(body.parameters, call.forwarded))
        kind: type[GenerateChannel] = EventStream if streams else OneAnswer
        return InferRequest(
            name,
            version,
            body.inputs,
            kind(call, self._status_of, self._limits.input_bytes, self._requests, self._log, self._forget),
            arrival_ns,
            body.id,
            parameters=options.others,
            priority=options.priority,
            timeout_us=options.timeout_us,
            correlation_id=options.correlation_id,
            flags=options.flags,
            token=call,
            takes_stream=True,
            flow=WireFlow(call),
        )

    def _forget(self, key: int) -> None:
        self._live.pop(key, None)

    def _refuse(self, call: "HttpCall", code: int, body: bytes) -> None:
        plain_answer(call, self._status_of(code), body)
