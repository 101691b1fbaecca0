"""The contract between Charonia and a backend. `identity.py` is the smallest example.

A backend is a class with `load`. It gives a `BackendModel`, one for each model version, which gives a
`BackendInstance` for each instance. Each instance is driven by one thread of its own:

    instance.start(batch)      owns every request of the batch until it is settled through the batch
    batch.respond / batch.fail from any thread, at once or later, each request exactly once
    batch.ready_for_next()     the thread may call `start` again; independent of the settling

A plain backend does all of it before `start` returns; `Batch` then needs no word more. An exception out of `start`
fails every request of the batch that is not settled yet.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from charonia.config.findings import Completion
from charonia.config.places import NO_PLACES, Places
from charonia.config.rate_limits import NO_NEEDS, RateNeeds
from charonia.core.clock import Clock, MonotonicClock
from charonia.core.errors import CharoniaError
from charonia.core.log import Log, SilentLog
from charonia.core.model_id import ModelId
from charonia.core.protocols import OtherModels, Submitter
from charonia.core.request import NO_PARAMETERS, InferRequest, Parameter
from charonia.core.tensor import Tensor
from charonia.observe.custom_metrics import CustomMetrics

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig


class Batch(Protocol):
    """The requests that are executed together, in the order in which they were queued.

    Every input of every request has the shape rules of the model applied: reshaped, batch dimension first.
    """

    requests: Sequence[InferRequest]

    def inputs_ready(self) -> None:
        """Stamp: inputs are gathered, computing starts. Optional; each stamp is taken once."""

    def outputs_ready(self) -> None:
        """Stamp: computing is over, outputs are being split."""

    def respond(
        self,
        request: InferRequest,
        outputs: Sequence[Tensor],
        parameters: Mapping[str, Parameter] = NO_PARAMETERS,
        final: bool = True,
    ) -> None:
        """Answer one request, or send one of several responses. Answers leave together at `flush`.

        Outputs are answered in the order given and may be more than were requested; they are reduced to those asked
        for, and reshaped, by the batch's owner. State that the server keeps for a sequence is taken out of them.
        """

    def end(self, request: InferRequest) -> None:
        """The responses of one request are over, and no response comes with the end (decoupled models only)."""

    def reschedule(self, request: InferRequest) -> None:
        """Give one request back to its scheduler, to be executed again later (iterative sequences).

        Raises:
            UnsupportedError: the model's sequences are not iterative; the request is still the batch's.
        """

    def fail(self, request: InferRequest, error: CharoniaError, final: bool = True) -> None:
        """Answer one request with an error, or send one as one of several responses (decoupled models)."""

    def flush(self) -> None:
        """Count statistics and send what was answered. Called for the backend when `start` returns; a backend that
        answers later calls it itself after each group of answers."""

    def ready_for_next(self) -> None:
        """The instance can take another batch. Called when `start` returns, unless `hold` was called."""

    def hold(self) -> None:
        """Called during `start`: the backend will call `ready_for_next` itself."""


@dataclass(frozen=True, slots=True)
class InstanceSpec:
    """Which instance to make.

    Attributes:
        name: as in Triton's logs (`m_0_1`).
        kind: KIND_CPU and so on; device: "cpu" or "gpu:0".
        cpu_threads: how many it may use, at least 1.
        cores: the only ones that it may run on; () for any.
        passive: it is made and gets no requests.
        rate: what it needs of the rate limiter.
        settings: equal for two specs whose groups say the same of everything else.
    """

    name: str
    kind: str
    device: str
    cpu_threads: int
    cores: tuple[int, ...] = ()
    passive: bool = False
    rate: RateNeeds = NO_NEEDS
    settings: bytes = b""

    @property
    def device_number(self) -> int:
        """As resources of the rate limiter count devices: the CPU is device 0, as in Triton."""
        return int(self.device.partition(":")[2] or 0)


@dataclass(frozen=True, slots=True)
class ModelContext:
    """Everything a backend may know of the model version that it loads.

    Attributes:
        name: the model's name, unique in its namespace ("" without any); version: its number.
        config: as completed and validated.
        model_dir: the model's folder (the one with config.pbtxt); version_dir: its version folder.
        backend_config: `--backend-config=<backend>,<key>=<value>` settings for this backend, global ones merged in.
        server: what the command line says and backends may need.
        places: where the fields of `config` were written, for messages.
        completions: `complete_config` adds what it filled in, and why, for the log. It need not.
    """

    name: str
    version: int
    config: "ModelConfig"
    model_dir: Path
    version_dir: Path
    backend_config: Mapping[str, str]
    server: "ServerFacts"
    places: Places = NO_PLACES
    completions: list[Completion] = field(default_factory=list)
    namespace: str = ""

    @property
    def id(self) -> ModelId:
        return ModelId(self.name, self.namespace)


@dataclass(frozen=True, slots=True)
class ServerFacts:
    """What reaches backends of the server.

    Attributes:
        clock: what the arrivals of requests are counted in.
        submitter, models: the way to other models, for models that call them or have them loaded; None where nothing
            is served (`charonia check`).
    """

    log_verbose: int = 0
    exit_timeout_s: float = 30.0
    auto_complete: bool = True
    log: Log = field(default_factory=SilentLog)
    custom_metrics: CustomMetrics = field(default_factory=CustomMetrics)
    submitter: Submitter | None = None
    models: OtherModels | None = None
    clock: Clock = field(default_factory=MonotonicClock)


class BackendInstance(Protocol):
    """One instance of a model. `start` and `close` are called by its own thread; `healthy` from any thread."""

    def start(self, batch: Batch) -> None: ...

    @property
    def healthy(self) -> bool:
        """False while the instance can't serve (its process died and is being restarted)."""

    def close(self) -> None:
        """Free everything. Never called while a batch is unsettled, unless the exit time-out passed."""


@runtime_checkable
class MortalInstance(BackendInstance, Protocol):
    """An instance that can die and come back, since it lives in a process of its own. `start` waits for its return.

    Attributes:
        failure: why it will not come back (it died too often: the model is UNAVAILABLE with this reason), else None.
        health_changed: set by the owner before the first `start`; called from any thread, without locks held, after
            `healthy` or `failure` have changed.
    """

    failure: str | None
    health_changed: Callable[[], None]


@runtime_checkable
class ReturningInstance(MortalInstance, Protocol):
    """A mortal instance that can say when it is back."""

    def wait_for_return(self) -> None:
        """Block until it is healthy or will never be again. Called before more work is taken for it."""


@runtime_checkable
class AgileInstance(BackendInstance, Protocol):
    """An instance that may be driven by other threads than its own, one at a time, so that a thread that has just
    answered for one model can go on with the next one without waking another.

    Attributes:
        any_thread: True where that is so at any time; it answers before `start` returns then. Else only threads that
            wait for the answer anyway may.
    """

    any_thread: bool


@runtime_checkable
class SequenceListener(Protocol):
    """An instance that wants to know of sequences that end without a last request."""

    def sequence_ended(self, correlation_id: int | str, reason: str) -> None:
        """The sequence has been idle for too long ("idle") or was cancelled ("cancelled"): no more of it will come.

        Called from any thread after the sequence's last request was settled; must not block.
        """


class BackendModel(Protocol):
    """One loaded model version."""

    def create_instance(self, spec: InstanceSpec) -> BackendInstance:
        """Make an instance; may take long; several may be made at once. Raises CharoniaError with the reason."""

    def close(self) -> None: ...


class Backend(Protocol):
    """One backend of one server; made at the first model that needs it."""

    name: str

    def complete_config(self, context: ModelContext) -> "ModelConfig":
        """The config with everything filled in that the model file tells (inputs, outputs, max_batch_size, …).

        `context.config` has defaults and the user's values; the result is a new message. Raises InvalidArgumentError
        when the model contradicts the config. Called only when auto-complete is on.
        """

    def load(self, context: ModelContext) -> BackendModel:
        """Load one model version. Raises CharoniaError with the reason."""

    def close(self) -> None: ...


@runtime_checkable
class ProcessOwner(Protocol):
    """A backend whose models run in processes of their own."""

    def kill(self) -> None:
        """End all of them at once: the server leaves, and some model did not end in time."""
