"""What the repository agents of a model did to one load of it, from their `load` to their last stage.

A run is made before the configuration is read for good, since agents may replace the model's folder. The plan of the
load holds it, and so does every version that was loaded by it; the last one that lets go ends it.
"""

import shutil
import threading
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path
from typing import TYPE_CHECKING

from charonia.agents.base import AgentModel, RepositoryAgent
from charonia.agents.registry import AgentRegistry
from charonia.core.errors import CharoniaError, InvalidArgumentError, UnavailableError
from charonia.core.log import Log
from charonia.core.temporary import TemporaryFolders

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig

# An agent that tells somebody of an unload may need seconds for it. What hangs for ever must not keep models.
_NOTICE_S = 10.0
_PREFIX = "charonia-agents-"

ReadConfig = Callable[[Path], "ModelConfig | None"]
"""Gives what the configuration in a model's folder says, None where there is none or it can't be read."""


class _Stage(Enum):
    """PREPARED: `load` has succeeded. Which of the others follow stands in `RepositoryAgent`."""

    PREPARED = auto()
    SERVES = auto()
    LEAVES = auto()
    FAILED = auto()
    ENDED = auto()


@dataclass(frozen=True, slots=True)
class _Link:
    """One agent of a run."""

    name: str
    agent: RepositoryAgent
    model: AgentModel


class AgentRuns:
    """All runs of one server.

    Args:
        notice_s: how long an agent may take for any stage but `load`.
    """

    def __init__(self, registry: AgentRegistry, *, notice_s: float = _NOTICE_S) -> None:
        self.registry = registry
        self._notice_s = notice_s
        self._changed = threading.Condition()
        self._stopping = False
        self._stuck: set[str] = set()
        self._folders = TemporaryFolders(_PREFIX)

    def begin(self, model: str, location: Path, config: "ModelConfig", read_config: ReadConfig, log: Log) -> "AgentRun":
        """Have the agents of `config` do their `load`, in its order, each in the folder that the one before left. The
        caller holds the run.

        Raises:
            CharoniaError: an agent is missing, refuses, or fails; those that had begun were told `load_fail`.
        """
        run = AgentRun(self, model, location, log)
        try:
            for each in config.model_repository_agents.agents:
                current = config if run.location == location else read_config(run.location)
                agent = self.registry.get(each.name)
                made = AgentModel(model, dict(each.parameters), run.location, current, run.make_folder)
                run.add(_Link(each.name, agent, made))
        except BaseException:
            run.fail()
            run.release()
            raise
        return run

    def load(self, link: _Link) -> Path:
        """One agent's `load`; gives the folder that it left. Raises CharoniaError."""
        model, agent = link.model.name, link.name
        try:
            ended = self._perform(lambda: link.agent.load(link.model), None)
        except BaseException as error:
            why = str(error) if isinstance(error, CharoniaError) else f"{type(error).__name__}: {error}"
            raise InvalidArgumentError(f"repository agent '{agent}' refuses model '{model}': {why}") from error
        if not ended:
            self._stuck.add(agent)
            raise UnavailableError(f"the server is stopping, and repository agent '{agent}' is still at '{model}'")
        return link.model.end_load()

    def notify(self, link: _Link, stage: str, log: Log) -> None:
        """Tell one agent of a stage. What goes wrong is logged: nothing is kept from going on by it."""
        who, model = f"repository agent '{link.name}'", link.model.name
        if link.name in self._stuck:
            log.error(f"{who} is not told {stage} of model '{model}': it hangs in an earlier call")
            return
        try:
            ended = self._perform(lambda: getattr(link.agent, stage)(link.model), self._notice_s)
        except BaseException as error:
            log.error(f"{who} failed in {stage} of model '{model}': {type(error).__name__}: {error}")
            return
        if not ended:
            self._stuck.add(link.name)
            log.error(f"{who} has not ended {stage} of model '{model}' after {self._notice_s:g} s: going on without it")

    def stop(self) -> None:
        """The server stops: nobody waits for a `load` any more."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def close(self, log: Log) -> None:
        """Close the agents that don't hang, and remove the folders that are left."""
        if not self._stuck and not self._perform(lambda: self.registry.close(log), self._notice_s):
            log.error(f"the repository agents have not ended close after {self._notice_s:g} s: going on without them")
        self._folders.close()

    def _perform(self, work: Callable[[], object], limit_s: float | None) -> bool:
        """Do something on a thread of its own, and wait for it; raises what it raised.

        Args:
            limit_s: None to wait until the server stops.

        Returns:
            False when it is not done; it goes on.
        """
        outcome: list[BaseException | None] = []

        def run() -> None:
            result: BaseException | None = None
            try:
                work()
            except BaseException as error:  # SystemExit too: it would only end this thread, and tell nobody
                result = error
            with self._changed:
                outcome.append(result)
                self._changed.notify_all()

        threading.Thread(target=run, name="repository-agent", daemon=True).start()
        with self._changed:
            self._changed.wait_for(lambda: outcome or (limit_s is None and self._stopping), limit_s)
        if outcome and outcome[0] is not None:
            raise outcome[0]
        return bool(outcome)

    def make_folder(self, model: str) -> Path:
        """A new, empty folder named by the model. Raises InternalError."""
        try:
            folder = self._folders.make() / model
            folder.mkdir()
        except OSError as error:
            remedy = "the environment variable TMPDIR chooses another folder"
            raise self._folders.failed(model, error, remedy) from None
        return folder


class AgentRun:
    """The agents of one load.

    Attributes:
        location: the model's folder, as the last agent left it.
    """

    def __init__(self, runs: AgentRuns, model: str, location: Path, log: Log) -> None:
        self.model = model
        self.location = location
        self._original = location
        self._runs = runs
        self._log = log
        self._lock = threading.Lock()
        self._links: list[_Link] = []
        self._stage = _Stage.PREPARED
        self._holders = 1
        self._made: list[Path] = []

    @property
    def has_moved(self) -> bool:
        """Whether the model lies in another folder than that of its repository."""
        return self.location != self._original

    def add(self, link: _Link) -> None:
        """One more agent: its `load`. Raises CharoniaError."""
        self._links.append(link)
        self.location = self._runs.load(link)

    def make_folder(self) -> Path:
        """A new, empty folder named by the model, which goes with the run. Raises InternalError."""
        self._made.append(folder := self._runs.make_folder(self.model))
        return folder

    def hold(self) -> None:
        with self._lock:
            self._holders += 1

    def try_hold(self) -> bool:
        """As `hold`; False when it has ended already."""
        with self._lock:
            if not self._holders:
                return False
            self._holders += 1
            return True

    def release(self) -> None:
        with self._lock:
            self._holders -= 1
            last = self._holders == 0
        if last:
            self._end()

    def complete(self) -> None:
        """All versions of the load serve. Only the first time counts."""
        self._go(_Stage.PREPARED, _Stage.SERVES, "load_complete")

    def fail(self) -> None:
        """It came to nothing; nothing happens where it serves already."""
        self._go(_Stage.PREPARED, _Stage.FAILED, "load_fail")

    def unload(self) -> None:
        """What it loaded gets no new requests from now on."""
        self._go(_Stage.SERVES, _Stage.LEAVES, "unload")

    def _end(self) -> None:
        self.fail()
        self.unload()
        self._go(_Stage.LEAVES, _Stage.ENDED, "unload_complete")
        for folder in self._made:
            shutil.rmtree(folder.parent, ignore_errors=True)

    def _go(self, before: _Stage, after: _Stage, stage: str) -> None:
        with self._lock:
            if self._stage is not before:
                return
            self._stage = after
        for link in self._links:
            self._runs.notify(link, stage, self._log)
