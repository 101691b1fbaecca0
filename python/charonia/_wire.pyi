"""The extension: bytes on one side, tensors and calls on the other. Knows no model, no config, no policy.

Network threads never attach to the interpreter: Python pulls with `take` and `take_control`, and hands
answers back with `reply_batch`. Every class here may be used from any thread. Status codes are gRPC's canonical
numbers everywhere; `http_status` is the one mapping to HTTP.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict, Unpack, final

def http_status(code: int) -> int:
    """The HTTP status for a canonical status code."""

def bytes_fault(model: str, input: str, shape: Sequence[int], data: object) -> str | None:
    """What is wrong with the bytes of a BYTES input that did not come through the wire; None for nothing. Reads `data`
    (anything with the buffer protocol) once; nobody may write to it meanwhile."""

def monotonic_ns() -> int:
    """The clock of arrival stamps; the same as time.monotonic_ns()."""

class _Settings(TypedDict, total=False):
    """Keywords of WireOptions. Defaults are in `rust/wire/src/options.rs`; without a port a listener is off."""

    http_address: str
    http_port: int | None
    grpc_address: str
    grpc_port: int | None
    metrics_address: str
    metrics_port: int | None
    sagemaker_address: str
    sagemaker_port: int | None
    vertex_ai_address: str
    vertex_ai_port: int | None
    http_threads: int
    grpc_threads: int
    sagemaker_threads: int
    vertex_ai_threads: int
    reuse_http_port: bool
    reuse_grpc_port: bool
    http_max_input_bytes: int
    """Of a body, after inflating, and of each tensor that is written as JSON."""
    grpc_max_message_bytes: int
    body_budget_bytes: int
    """Of all bodies that are held at one time."""
    body_wait_ms: int
    """How long a body waits for a place in that budget."""
    inbox_max_calls: int
    max_connections: int
    idle_timeout_ms: int
    """Of a connection without a request; 0 for any time."""
    read_timeout_ms: int
    write_timeout_ms: int
    max_header_bytes: int
    http2_max_streams: int
    http2_max_control_frames: int
    request_max_tensors: int
    request_max_parameters: int
    grpc_keepalive_time_ms: int
    grpc_keepalive_timeout_ms: int
    grpc_keepalive_permit_without_calls: bool
    grpc_min_recv_ping_interval_ms: int
    grpc_max_ping_strikes: int
    grpc_max_connection_age_ms: int
    """0 for any age; so is the grace for any time."""
    grpc_max_connection_age_grace_ms: int
    grpc_answer_delay_ms: int
    """How much later than they could the unary calls that are no inference are answered, for tests of clients."""
    grpc_compression_level: str
    """ "none", "low", "medium" or "high"."""
    access_log: str
    """The form of each line: "json", "common", or "" for no lines."""
    http_tls: tuple[str, str, str | None] | None
    """Files in PEM: certificate, key, and the roots of the certificates that clients must show; None for clients
    without one. Looked at again at a handshake, at most once a second."""
    grpc_tls: tuple[str, str, str | None] | None
    metrics_tls: tuple[str, str, str | None] | None
    http_restrictions: Sequence[tuple[Sequence[str], str, str]]
    """(paths, header, secret): calls of these paths must bring the header, or they are refused before anything else of
    them is read; "" for none. A segment `*` is any one, `**` at the end the rest. The first that has a path decides."""
    grpc_restrictions: Sequence[tuple[Sequence[str], str, str]]
    """The same by the paths of methods."""
    http_forward_pattern: str
    """A regular expression: calls keep the headers in whose names it is found (`forwarded`); "" for none."""
    grpc_forward_pattern: str
    server_header: str
    file_descriptor_set: bytes

@final
class WireOptions:
    """Everything the wire needs to know, set once. A port of 0 picks a free one; without one that listener is off."""

    def __new__(cls, **settings: Unpack[_Settings]) -> WireOptions:
        """Raises ValueError for a pattern that can't be read, and for a header that no client can send."""

@final
class InputTensor:
    """One input of a call: read-only bytes with the buffer protocol (format "B", one dimension), which it keeps alive.

    Satisfies `charonia.core.tensor.Buffer`: device "cpu", owned, `host()` gives the object itself. The data is
    aligned to the item size. BYTES framing and the byte size have been checked when `InferCall.defect` is None.
    """

    @property
    def nbytes(self) -> int: ...
    @property
    def device(self) -> str: ...
    @property
    def owned(self) -> bool: ...
    @property
    def parameters(self) -> dict[str, bool | int | float | str] | None: ...
    def host(self) -> InputTensor: ...
    def __buffer__(self, flags: int, /) -> memoryview: ...

InputParts = tuple[str, str, tuple[int, ...], InputTensor]
"""(name, datatype, shape, the input itself)."""

CallParts = tuple[
    int,
    str,
    str,
    str,
    list[InputParts],
    tuple[str, ...],
    dict[str, int] | None,
    dict[str, bool | int | float | str] | None,
    bool,
    int,
    int,
    int,
    int,
    bool,
    bool,
]
"""What a request says:

- key: unique in this process; `take` names cancelled calls by it
- model_name; model_version as written by the client, "" if none; id
- inputs, in the request's order; duplicates are kept, so that the engine can refuse them
- names of the requested outputs, in the request's order, duplicates kept
- class counts of those outputs that ask for classification, None when none does
- request parameters, None when there are none; `binary_data_output` is the wire's own and not among them
- raw: a raw binary request (header length 0): one input whose name, datatype and shape come from the config
- arrival_ns; deadline_ns, 0 for none
- signature: hash of the inputs' names, datatypes, ranks and all dims but the first, and of the requested outputs;
  64 bits, keyed per process
- batch_dim: the first dim that all inputs share, -1 when they differ or one has rank 0
- streams: whether it may get any number of responses (`ModelStreamInfer`)
- whether an input or a requested output has parameters of its own
"""

@final
class InferCall:
    """One inference request as it came from the wire. Exactly one reply settles it; later ones are counted and ignored.

    A call that is dropped unsettled answers its client with INTERNAL and counts in `Counters.dropped_calls`.
    """

    def unpack(self) -> CallParts:
        """What every request needs, in one crossing: a property each would cost more than all of them together."""
    @property
    def key(self) -> int:
        """Unique in this process; `take` names cancelled calls by it."""
    @property
    def protocol(self) -> str:
        """ "http", "grpc" or "grpc_stream"."""
    @property
    def model_name(self) -> str: ...
    @property
    def output_parameters(self) -> dict[str, dict[str, bool | int | float | str]] | None:
        """Other parameters of requested outputs, None when there are none."""
    @property
    def defect(self) -> tuple[int, str] | None:
        """(code, message) when the body is malformed in a way that needs no config to see; inputs may be missing then.

        Python answers with it after it has looked the model up, so that an unknown model stays a 404."""
    @property
    def headers(self) -> list[tuple[str, str]]:
        """HTTP headers or gRPC metadata, names in lower case; made on request."""
    def header(self, name: str) -> str | None:
        """The first header, or metadata, of that name, which is in lower case."""
    @property
    def begun_ns(self) -> int:
        """When its head had come, as `WireServer.stamp` has it."""
    @property
    def arrival_ns(self) -> int: ...
    def watch(self) -> bool:
        """Have `take` give its key once its connection is done with it. False when that is so already."""
    @property
    def sent(self) -> tuple[int, int] | None:
        """Of a watched call, once its connection is done with it: when its (last) answer began to be sent, and when the
        connection had all of it; (0, 0) where none was sent."""
    @property
    def forwarded(self) -> list[tuple[str, str]]:
        """Headers that go with it to the model: as HTTP/1 clients spell them, else in lower case."""
    @property
    def is_cancelled(self) -> bool: ...
    @property
    def has_room(self) -> bool:
        """False while too many of its responses (64, or 1 MiB) wait for their client to read. `take` tells
        when there is room again, at half of that. Always true of a cancelled call."""

Output = tuple[str, str, tuple[int, ...], Any, bool]
"""(name, datatype, shape, data, owned): data is C-contiguous with the buffer protocol, BYTES serialised; or None: the
client finds it where it asked for it, in shared memory, and the answer only describes the output.
Up to 8 KiB, or when not owned, it is copied before reply_batch returns; larger owned data is borrowed until it
is sent, and given back (its reference dropped) on a thread that calls `take`."""

Reply = tuple[InferCall, str, str, Sequence[Output] | None, Mapping[str, bool | int | float | str] | None, bool]
"""(call, model name, model version, outputs in the model's order, response parameters, final). Outputs None: the
bare end of a decoupled model's responses."""

_Failure = tuple[InferCall, int, str] | tuple[InferCall, int, str, bool, bool]
"""(call, code, message) of a request that was refused, or (call, code, message, whether the inference itself failed,
final)."""

@final
class HttpCall:
    """An HTTP request that is not an inference, with its whole body. Answered by `start` and then `write`s."""

    @property
    def key(self) -> int:
        """Unique in this process; `take_control` tells news of the call by it."""
    @property
    def begun_ns(self) -> int:
        """When its head had come, and below when all of it had, as `WireServer.stamp` has it."""
    @property
    def arrival_ns(self) -> int: ...
    def header(self, name: str) -> str | None:
        """The first header of that name, which is in lower case."""
    @property
    def listener(self) -> str:
        """As `WireServer.ports` names it: "http", "metrics", "sagemaker" or "vertex-ai"."""
    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str:
        """As sent, not percent-decoded, without the query."""
    @property
    def query(self) -> str: ...
    @property
    def http_version(self) -> str:
        """ "1.0", "1.1" or "2"."""
    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        """Names in lower case."""
    @property
    def body(self) -> bytes: ...
    @property
    def client(self) -> tuple[str, int] | None:
        """None over a Unix socket."""
    @property
    def secure(self) -> bool:
        """Whether it came under TLS."""
    @property
    def forwarded(self) -> list[tuple[str, str]]:
        """As `InferCall.forwarded`."""
    @property
    def is_disconnected(self) -> bool: ...
    @property
    def has_room(self) -> bool:
        """False while too much of the body (64 pieces, or 1 MiB) waits for the client to read. `take_control` tells
        when there is room again, at half of that. Always true when the client has gone."""
    def start(self, status: int, headers: Sequence[tuple[bytes, bytes]]) -> None:
        """Send the head. Content-Length is kept if given, else the body is chunked."""
    def write(self, chunk: bytes, more: bool) -> bool:
        """Send a piece of the body, `more` False ends it. False when the client has gone."""

@final
class RpcCall:
    """A unary gRPC call other than ModelInfer: method path and serialised request message."""

    @property
    def path(self) -> str:
        """ "/inference.GRPCInferenceService/ServerMetadata"."""
    @property
    def message(self) -> bytes: ...
    @property
    def metadata(self) -> list[tuple[str, str]]: ...
    @property
    def is_cancelled(self) -> bool: ...
    def reply(self, message: bytes) -> None: ...
    def fail(self, code: int, message: str) -> None: ...

@final
class KeptAnswer:
    """An answer that the wire gives by itself until this object is gone."""

    def take_used(self) -> bool:
        """Whether it was given since this was asked last."""

@final
class AnswerShelf:
    """Where such answers of one model version lie; given with the table to `publish`."""

    def __new__(cls) -> AnswerShelf: ...
    def take_given(self) -> list[tuple[int, int, int]]:
        """What was given since this was asked last, by order of magnitude: how many answers, nanoseconds from arrival
        to answer in sum, and how many of these looking them up."""

@final
class Counters:
    """Totals since start, and gauges; plain integers read at once."""

    http_requests: int
    grpc_requests: int
    infer_calls: int
    replies: int
    late_replies: int
    dropped_calls: int
    cancelled_calls: int
    open_connections: int
    waiting_calls: int
    unsettled_calls: int
    body_bytes: int
    pinned_output_bytes: int
    panics: int

@final
class WireServer:
    """The listeners and their threads."""

    def __new__(cls, options: WireOptions) -> WireServer: ...
    def start(self) -> None:
        """Read certificates, bind and listen.

        Raises OSError naming address and port, ValueError for an address that is none and for files of TLS that can't
        be used.
        """
    @property
    def ports(self) -> dict[str, int | None]:
        """Of "http", "grpc", "metrics", "sagemaker", "vertex-ai"; None for one that is off, and for a Unix socket."""
    def publish(
        self,
        live: bool,
        ready: bool,
        models: Mapping[tuple[str, str], tuple[bool, int, bool]],
        asks: bool = False,
        shelves: Mapping[tuple[str, str], AnswerShelf] | None = None,
    ) -> None:
        """Replace the table that answers health and readiness paths and RPCs, and that routes infer calls.

        `models` maps (name, version as text, "" for the default) to (ready, route, decoupled). Route 0 goes to `take`
        always, in the order of arrival; another number may be waited at with `take_route`. On a stream, requests of
        decoupled models are answered as the responses come, others in their order.

        `asks`: readiness of models and of the server is not in the table, it goes to `take_control`.

        `shelves`, by name and version as in `models`: what lies there is answered at once, while the model is ready and
        the server accepts requests.
        """
    def publish_gateway(self, gateway: str, paths: Mapping[str, tuple[str, Sequence[tuple[str, int]]]]) -> None:
        """Replace what the paths of "sagemaker" or "vertex-ai" stand for: by path, percent-decoded, a path of HTTP, and
        the statuses of inferences that fail, by words in their messages ("" for all others; none at all: as for HTTP).

        Other paths go to `take_control`, and so do redirected requests that are no inferences. ValueError for what is
        no path.
        """
    def take(self, max_items: int, timeout_s: float) -> list[InferCall | int]:
        """What has arrived, in order: calls, and the keys of calls taken earlier of which there is news: their client
        or time has gone (`is_cancelled`), they have room again (`has_room`), or, of watched ones, their connection is
        done with them (`sent`).

        Blocks without the GIL until there is something or the time-out; [] then, and after `shutdown`.
        """
    def take_route(self, route: int, max_items: int, timeout_s: float) -> list[InferCall]:
        """As `take`, for the calls of one route only, and [] also after `wake_route`.

        Once threads have come here, the route's calls gather here: a waiting thread is woken for them, a busy one has a
        moment (1 ms) to come back and take them all; then they go to `take`. A call is never left where nobody looks.
        With a time-out of 0 it only looks, and uses up no wake-up. After `shutdown` it waits for wake-ups only.
        """
    def wake_route(self, route: int, count: int = 1) -> None:
        """Make `count` waits at the route return, the present ones or the next."""
    def take_control(self, max_items: int, timeout_s: float) -> list[HttpCall | RpcCall | int]:
        """Up to `max_items` calls, and the keys of all HTTP calls taken earlier of which there is news: their client
        has gone before the end of the answer (`is_disconnected`), or they have room again (`has_room`).

        Blocks without the GIL until there is something, the time-out or `wake_control`; [] then, and after `shutdown`.
        """
    def wake_control(self) -> None:
        """Make one `take_control` return, the present one or the next."""
    def reply_batch(self, replies: Sequence[Reply]) -> None:
        """Send answers, those of one call in their order. Raises when one of them is malformed; then none is sent."""
    def fail_batch(self, failures: Sequence[_Failure]) -> None:
        """Send errors; one that is final ends its call. Raises when one of them is malformed; then none is sent."""
    def keep(self, shelf: AnswerShelf, answer: Reply) -> KeptAnswer | None:
        """Give this answer to later calls too, but not to its own: to those of the same model name and version, inputs
        and requested outputs, and without anything else that could matter.

        None where its own call is not such a one or has an answer there, and where either has more than 256 KiB of
        tensors. Memory that is `owned` is borrowed as long as it lies there.
        """
    def close_shelves(self, closed: bool) -> None:
        """While they are closed, each call is taken."""
    def take_access(self, timeout_s: float) -> tuple[bytes, int]:
        """Lines of the access log, whole ones, and how many were dropped since the last call because nobody took them.

        Blocks without the GIL until there are some or the time-out; (b"", 0) then, and after `shutdown`.
        """
    def stamp(self, on: bool) -> None:
        """Whether requests are stamped when they begin to come (`begun_ns`; 0 while they are not)."""
    def set_exiting(self) -> None:
        """`Connection: close` on HTTP answers and GOAWAY on gRPC from now on; new connections refused."""
    def stop_accepting(self) -> None:
        """Close the listening sockets; what is connected stays."""
    def shutdown(self, timeout_s: float) -> bool:
        """Wait until replies are flushed, close everything, wake all takers. False if the time ran out."""
    def publish_load(self, report: tuple[str, str] | None) -> None:
        """What answers to HTTP inferences say in `endpoint-load-metrics` to requests that ask for it as text or as
        JSON; None for nothing."""
    def take_remarks(self, timeout_s: float) -> list[tuple[str, str]]:
        """("detail", "notice" or "error", a sentence) for the log. Blocks without the GIL until there is something or
        the time-out; [] then, and after `shutdown`."""
    def counters(self) -> Counters: ...
