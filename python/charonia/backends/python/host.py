"""An isolated instance: a model in a process of its own, which is started again when it dies."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from charonia.backends.base import Batch
from charonia.backends.cores import pin_process
from charonia.backends.python.autocomplete import Warm
from charonia.backends.python.calls import ProcessCalls
from charonia.backends.python.child import wire
from charonia.backends.python.events import ModelEvents
from charonia.backends.python.launch import ModelFiles
from charonia.backends.python.link import Link, OutOfStep
from charonia.backends.python.outgoing import OutgoingCalls
from charonia.backends.python.outputs import OutputCheck
from charonia.backends.python.process import ChildFailed, ChildProcess, Patience
from charonia.backends.python.readiness import NOT_READY, ReadinessQuestion
from charonia.backends.python.restart import Deaths, RestartPolicy
from charonia.backends.python.supervisor import Supervisor
from charonia.core.errors import BackendError, CharoniaError, UnavailableError
from charonia.core.log import Log

_SLOW_AFTER_S = 30.0


@dataclass(frozen=True, slots=True)
class HostPlan:
    """What an isolated instance is made of.

    Attributes:
        label: `model 'm' instance 'm_0'`, for messages.
        args: of initialize.
        spawn: starts a process.
        new_check, new_events, new_calls: one of each for each process.
        finalize_timeout_s: how long finalize may take.
        keeps_devices: inputs on a device stay there; else they are copied to the host.
        instance: what calls of other models name as their caller.
        cores: where its processes run, () for anywhere.
    """

    name: str
    label: str
    files: ModelFiles
    args: dict[str, str]
    output_names: tuple[str, ...]
    spawn: Callable[[], ChildProcess]
    new_check: Callable[[], OutputCheck]
    new_events: Callable[[], ModelEvents]
    new_calls: Callable[[], OutgoingCalls]
    finalize_timeout_s: float
    keeps_devices: bool
    restart: RestartPolicy
    log: Log
    instance: object = None
    decoupled: bool = False
    cores: tuple[int, ...] = ()


class _Life:
    """One process from spawn to end; what the supervisor has to say about it arrives here."""

    def __init__(
        self, child: ChildProcess, plan: HostPlan, events: ModelEvents, ended: "Callable[[_Life], None]"
    ) -> None:
        self.child = child
        self.events = events
        self.link = Link(child.work, child.inputs, child.outputs, child.outbox, plan.new_check(), plan.keeps_devices)
        self.calls = ProcessCalls(
            plan.new_calls(),
            child.outbox,
            child.replies,
            self.link.call_inputs,
            self.link.open_requests,
            plan.instance,
            plan.decoupled,
        )
        self.serving = False
        self.hears_of_sequences = self.tells_ready = False
        self.readiness = ReadinessQuestion(plan.label, partial(child.outbox.post, wire.READY, 0, None), plan.log)
        self._ended = ended
        self._touched: dict[int, Batch] = {}  # by identity: batches with responses that have not left yet

    def on_event(self, child: ChildProcess, frame: wire.Frame) -> None:
        if frame.kind == wire.RESPONSES:
            self._touched.update((id(batch), batch) for batch in self.link.responses(frame.meta, frame.payload))
        elif frame.kind == wire.READY:
            self.readiness.answered(*frame.meta)
        elif not self.calls.frame(frame):
            self.events.frame(child.outbox, frame)

    def take_call(self, frame: wire.Frame) -> None:
        """A call for whose answer the process waits, and with it the thread that is here."""
        self.calls.begin(frame, waits=True)

    def on_quiet(self, child: ChildProcess) -> None:
        """Responses that came together leave together."""
        touched, self._touched = self._touched, {}
        for batch in touched.values():
            batch.flush()

    def on_exit(self, child: ChildProcess) -> None:
        self._ended(self)


class IsolatedInstance:
    """Implements `ReturningInstance`, `SequenceListener`, `AgileInstance` and `TellsReadiness`.

    While its process is being restarted, `start` waits: it would only fail its work.

    Attributes:
        failure: why it will not come back: it died too often. None while there is hope.
        health_changed: set by the owner; called from any thread after `healthy` or `failure` have changed.
    """

    any_thread = False  # the exchange with the process blocks: only threads that wait for its answer may

    def __init__(self, plan: HostPlan, supervisor: Supervisor) -> None:
        self.failure: str | None = None
        self.health_changed: Callable[[], None] = _nothing
        self._plan = plan
        self._supervisor = supervisor
        self._deaths = Deaths(plan.restart, time.monotonic)
        self._changed = threading.Condition()
        self._closing = threading.Event()
        self._life: _Life | None = None

    @property
    def healthy(self) -> bool:
        life = self._life
        return life is not None and life.serving

    def open(self, warm: Warm | None = None) -> None:
        """Start the process and initialize the model. `warm`: a process that has the model file loaded already.

        Raises:
            CharoniaError: with the reason; the process has ended then.
        """
        try:
            self._begin(warm)
        except CharoniaError:
            self.close()
            raise

    def start(self, batch: Batch) -> None:
        life = self._usable()
        try:
            life.link.exchange(batch, life.take_call)
        except wire.LinkClosed as closed:
            if isinstance(closed, OutOfStep):
                self._plan.log.error(f"{self._plan.label}: {closed}; its process is killed")
                life.child.kill()
            life.link.fail_open(self._death(life))

    def sequence_ended(self, correlation_id: int | str, reason: str) -> None:
        """See `SequenceListener`. A process that was started since knows nothing of the sequence, and need not."""
        life = self._life
        if life is not None and life.serving and life.hears_of_sequences:
            with suppress(wire.LinkClosed):
                life.child.work.notice(wire.ENDED, (correlation_id, reason))

    @property
    def tells_ready(self) -> bool:
        life = self._life
        return life is not None and life.serving and life.tells_ready

    def ask_ready(self) -> "Future[bool]":
        """See `TellsReadiness`."""
        life = self._life
        return NOT_READY if life is None else life.readiness.ask()

    def close(self) -> None:
        """Finalize the model and end the process."""
        self._closing.set()
        with self._changed:
            life, self._life = self._life, None
            self._changed.notify_all()
        if life is None:
            return
        if life.serving:
            problem = life.child.finish(self._plan.finalize_timeout_s)
            if problem is not None:
                self._plan.log.error(f"{self._plan.label}: {problem}")
        self._end(life)

    def abort(self) -> None:
        """From any thread: end the process at once and everything that waits for it, also a hanging initialize."""
        self._closing.set()
        with self._changed:
            life = self._life
            self._changed.notify_all()
        if life is not None:
            life.child.kill()

    def _ended(self, life: _Life) -> None:
        """The supervisor's word that a process has ended. One that served is replaced, on a thread of its own."""
        life.calls.close()
        life.readiness.close()
        life.link.fail_open(self._death(life))
        with self._changed:
            if life is not self._life or not life.serving:
                return
            life.serving = False
        if not self._closing.is_set():
            threading.Thread(target=self._revive, args=(life,), name=f"{self._plan.name} restart", daemon=True).start()

    def _begin(self, warm: Warm | None = None) -> None:
        """One process up to its answer to initialize."""
        child = self._plan.spawn() if warm is None else warm.child
        events = self._plan.new_events() if warm is None else warm.events
        life = _Life(child, self._plan, events, self._ended)
        with self._changed:
            self._life = life
        pin_process(child.popen.pid, self._plan.cores)
        if warm is None:
            self._supervisor.watch(child, life)
        else:
            warm.owner = life
        if self._closing.is_set():
            child.kill()
        try:
            life.hears_of_sequences, life.tells_ready = self._initialize(child, loaded=warm is not None)
        except ChildFailed as failed:
            raise BackendError(f"{self._plan.label}: {failed}") from None
        except wire.LinkClosed:
            raise BackendError(f"{self._plan.label}: {self._early_end(child)}") from None
        with self._changed:
            life.serving = not child.exited.is_set()
            self._changed.notify_all()
        if not life.serving:
            raise BackendError(f"{self._plan.label}: its process {child.death()} right after initialize")

    def _initialize(self, child: ChildProcess, loaded: bool) -> tuple[bool, bool]:
        """Whether the model wants to know of sequences that end by themselves, and tells whether it is ready."""
        files = self._plan.files
        patience = Patience(_SLOW_AFTER_S, self._warn_of_waiting)
        if not loaded:
            child.ask(wire.START, *files.start_arguments(), patience=patience)
        arguments = (self._plan.name, self._plan.args, self._plan.output_names)
        hears_of_sequences, tells_ready = child.ask(wire.INITIALIZE, *arguments, patience=patience)
        return hears_of_sequences, tells_ready

    def _warn_of_waiting(self, waited_s: float) -> None:
        self._plan.log.warning(f"{self._plan.label}: importing or initialize has not returned after {waited_s:.0f} s")

    def _early_end(self, child: ChildProcess) -> str:
        if self._closing.is_set():
            child.death()
            return "initialize had not returned when the server gave the model up; its process was killed"
        return f"its process {child.death()} while it was starting (import or initialize)"

    def _usable(self) -> _Life:
        """The present life, waiting for one while a restart is under way."""
        with self._changed:
            while not self._closing.is_set() and self.failure is None:
                life = self._life
                if life is not None and life.serving and not life.child.exited.is_set():
                    return life
                self._changed.wait()
        raise UnavailableError(self.failure or f"{self._plan.label} is being unloaded")

    def wait_for_return(self) -> None:
        with suppress(UnavailableError):
            self._usable()

    def _death(self, life: _Life) -> CharoniaError:
        how = life.child.death()
        return BackendError(f"Stub process '{self._plan.name}' is not healthy: the process of {self._plan.label} {how}")

    def _revive(self, dead: _Life) -> None:
        """Replace a dead process, trying again with growing pauses until it works or has failed too often."""
        reason = f"its process {dead.child.death()}"
        self._end(dead)
        self._tell_health()
        while not self._closing.is_set():
            delay_s = self._deaths.record()
            if delay_s is None:
                self._give_up(reason)
                return
            when = f"in {delay_s:g} s" if delay_s else "at once"
            self._plan.log.error(f"{self._plan.label}: {reason}; it is started again {when}")
            if self._closing.wait(delay_s):
                return
            try:
                self._begin()
            except Exception as error:  # a bug too: nobody else would try again
                reason = str(error) if isinstance(error, CharoniaError | OSError) else repr(error)
                if self._life is not None:
                    self._end(self._life)
            else:
                self._tell_health()
                return

    def _tell_health(self) -> None:
        """Whatever becomes of it, the process is replaced."""
        try:
            self.health_changed()
        except Exception as error:
            self._plan.log.error(
                f"{self._plan.label}: its health couldn't be told, by a fault of the server: {error!r}"
            )

    def _give_up(self, reason: str) -> None:
        with self._changed:
            self.failure = f"{self._plan.label} died {self._deaths}, it is not started again; last: {reason}"
            self._changed.notify_all()
        self._plan.log.error(self.failure)
        self._tell_health()

    def _end(self, life: _Life) -> None:
        """Free what a life used; its process is dead or dies now."""
        life.child.kill()
        life.child.exited.wait()
        life.events.close()
        life.child.close()


def _nothing() -> None:
    """Nobody asked to be told."""
