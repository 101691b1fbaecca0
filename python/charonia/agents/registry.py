"""Which repository agents there are, by the name in `model_repository_agents` of config.pbtxt."""

import sys
import threading
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from importlib import metadata, util
from pathlib import Path

from charonia.agents.base import RepositoryAgent
from charonia.agents.checksum import ChecksumAgent
from charonia.core.errors import CharoniaError, InvalidArgumentError, NotFoundError
from charonia.core.log import Log
from charonia.core.text import shown

ENTRY_POINT_GROUP = "charonia.agents"
AGENT_FILE = "agent.py"
AGENT_CLASS = "Agent"

AgentFactory = Callable[[], RepositoryAgent]
EMBEDDED: Mapping[str, AgentFactory] = {"checksum": ChecksumAgent}


class AgentRegistry:
    """The agents of one server, each made when the first model needs it, all closed by `close`.

    A name is looked up among the embedded agents, then among the entry points of the group `charonia.agents` (a
    callable without arguments that gives a `RepositoryAgent`), then as `<directory>/<name>/agent.py`, whose class
    `Agent` is one.

    Args:
        directory: `--repoagent-directory`; None or a missing folder for none.
    """

    def __init__(self, directory: Path | None, embedded: Mapping[str, AgentFactory] = EMBEDDED) -> None:
        self._directory = directory
        self._embedded = embedded
        self._lock = threading.Lock()
        self._made: dict[str, RepositoryAgent] = {}

    def get(self, name: str) -> RepositoryAgent:
        """The agent of this name; the same one each time.

        Raises:
            NotFoundError: there is none.
            InvalidArgumentError: it is there and can't be made.
        """
        with self._lock:
            if name not in self._made:
                self._made[name] = self._make(name)
            return self._made[name]

    def check(self, name: str) -> None:
        """Whether it is there; nothing of it is executed. Raises NotFoundError."""
        if name not in self.names():
            raise self._missing(name)

    def names(self) -> list[str]:
        """All agents that can be asked for now, sorted."""
        return sorted({*self._embedded, *_entry_points(), *self._files()})

    def made(self) -> list[tuple[str, str]]:
        """The agents that models have asked for, by name, and where each came from."""
        return [(name, self._origin(name)) for name in sorted(self._made)]

    def close(self, log: Log) -> None:
        """Close every agent; after the last stage of all models."""
        with self._lock:
            agents, self._made = self._made, {}
        for name, agent in agents.items():
            try:
                agent.close()
            except Exception as error:  # of the agent: the others are closed all the same
                log.error(f"repository agent '{name}' failed in close: {type(error).__name__}: {error}")

    def _make(self, name: str) -> RepositoryAgent:
        try:
            agent = self._factory(name)()
        except CharoniaError:
            raise
        except Exception as error:
            text = f"{type(error).__name__}: {error}"
            raise InvalidArgumentError(
                f"repository agent '{name}' of {self._origin(name)} can't be started: {text}"
            ) from error
        if not isinstance(agent, RepositoryAgent):
            raise InvalidArgumentError(
                f"repository agent '{name}' of {self._origin(name)} is no charonia.agents.RepositoryAgent, but "
                f"{type(agent).__name__}"
            )
        return agent

    def _factory(self, name: str) -> AgentFactory:
        if name in self._embedded:
            return self._embedded[name]
        if (entry_point := _entry_points().get(name)) is not None:
            factory: AgentFactory = entry_point.load()
            return factory
        if (file := self._files().get(name)) is not None:
            return _class_in(file)
        raise self._missing(name)

    def _files(self) -> dict[str, Path]:
        if self._directory is None:
            return {}
        return {path.parent.name: path for path in self._directory.glob(f"*/{AGENT_FILE}")}

    def _origin(self, name: str) -> str:
        if name in self._embedded:
            return "embedded"
        if (entry_point := _entry_points().get(name)) is not None:
            return entry_point.value
        return str(self._files().get(name, name))

    def _missing(self, name: str) -> NotFoundError:
        names = self.names()
        near = get_close_matches(name, names, 1)
        hint = f"did you mean '{near[0]}'?" if near else self._where(name)
        return NotFoundError(f"unable to find the repository agent '{shown(name)}' (known: {', '.join(names)}): {hint}")

    def _where(self, name: str) -> str:
        file = (self._directory or Path("<--repoagent-directory>")) / name / AGENT_FILE
        library = file.parent / f"libtritonrepoagent_{file.parent.name}.so"
        native = f"; '{library}' is a library for Triton, which can't be used here" if library.is_file() else ""
        return (
            f"install a package with an entry point '{shown(name)}' in the group {ENTRY_POINT_GROUP}, or write "
            f"'{file}' with a class {AGENT_CLASS}{native}"
        )


def _class_in(file: Path) -> AgentFactory:
    """The class `Agent` of an `agent.py`, which is executed here."""
    name = f"_charonia_agent_{file.parent.name}_{abs(hash(str(file.absolute()))):x}"
    spec = util.spec_from_file_location(name, file)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickle look their module up there
    spec.loader.exec_module(module)
    found: AgentFactory | None = getattr(module, AGENT_CLASS, None)
    if found is None:
        raise InvalidArgumentError(f"'{file}' has no class {AGENT_CLASS}, which is the agent")
    return found


def _entry_points() -> dict[str, metadata.EntryPoint]:
    return {point.name: point for point in metadata.entry_points(group=ENTRY_POINT_GROUP)}
