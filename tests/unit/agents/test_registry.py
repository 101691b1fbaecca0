"""Where agents are found, and what is said of those that are not there or are no agents."""

from importlib import metadata
from pathlib import Path
from textwrap import dedent

import pytest

from charonia.agents import RepositoryAgent, registry
from charonia.agents.checksum import ChecksumAgent
from charonia.agents.registry import AgentRegistry
from charonia.core.errors import InvalidArgumentError, NotFoundError
from charonia.observe.log import ServerLog
from charonia.testing.log import KeptLines


def write(folder: Path, name: str, code: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / "agent.py").write_text(dedent(code))


GOOD = """
    from dataclasses import dataclass
    from charonia.agents import RepositoryAgent

    @dataclass
    class Agent(RepositoryAgent):
        closed: bool = False

        def close(self):
            self.closed = True
"""


def test_the_one_that_comes_with_the_server(tmp_path: Path) -> None:
    agents = AgentRegistry(tmp_path / "none")
    assert isinstance(agents.get("checksum"), ChecksumAgent)
    assert agents.get("checksum") is agents.get("checksum")
    assert agents.made() == [("checksum", "embedded")]
    assert agents.names() == ["checksum"]


def test_one_in_a_folder(tmp_path: Path) -> None:
    write(tmp_path, "mine", GOOD)
    agents = AgentRegistry(tmp_path)
    agent = agents.get("mine")
    assert isinstance(agent, RepositoryAgent)
    assert agents.made() == [("mine", str(tmp_path / "mine" / "agent.py"))]
    agents.check("mine")
    agents.close(ServerLog(sink=KeptLines()))
    assert agent.closed  # type: ignore[attr-defined]
    assert agents.made() == []


def test_two_folders_have_an_agent_each_of_one_name(tmp_path: Path) -> None:
    for where in ("a", "b"):
        write(tmp_path / where, "mine", GOOD + f"\n        where = {where!r}\n")
    first, second = (AgentRegistry(tmp_path / where).get("mine") for where in ("a", "b"))
    assert (first.where, second.where) == ("a", "b")  # type: ignore[attr-defined]


def test_one_of_a_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    point = metadata.EntryPoint("pack", "charonia.agents.checksum:ChecksumAgent", registry.ENTRY_POINT_GROUP)
    monkeypatch.setattr(registry, "_entry_points", lambda: {"pack": point})
    agents = AgentRegistry(tmp_path)
    assert isinstance(agents.get("pack"), ChecksumAgent)
    assert agents.made() == [("pack", "charonia.agents.checksum:ChecksumAgent")]


def test_none_of_that_name(tmp_path: Path) -> None:
    (tmp_path / "native").mkdir()
    (tmp_path / "native" / "libtritonrepoagent_native.so").touch()
    agents = AgentRegistry(tmp_path)
    with pytest.raises(NotFoundError, match=r"agent 'cheksum' \(known: checksum\): did you mean 'checksum'"):
        agents.get("cheksum")
    with pytest.raises(NotFoundError, match=f"entry point 'relocation'.*{tmp_path}/relocation/agent.py"):
        agents.check("relocation")
    with pytest.raises(NotFoundError, match=r"libtritonrepoagent_native.so' is a library for Triton"):
        agents.get("native")
    for outside in ("../native", "", "a/b"):
        with pytest.raises(NotFoundError):
            agents.get(outside)


@pytest.mark.parametrize(
    ("code", "phrase"),
    [
        ("x = 1", "has no class Agent"),
        ("import nothing_of_this_name", "can't be started: ModuleNotFoundError"),
        ("class Agent:\n    pass", "is no charonia.agents.RepositoryAgent, but Agent"),
        ("class Agent:\n    def __init__(self):\n        raise RuntimeError('no key')", "RuntimeError: no key"),
    ],
)
def test_what_is_no_agent(tmp_path: Path, code: str, phrase: str) -> None:
    write(tmp_path, "bad", code)
    with pytest.raises(InvalidArgumentError, match=phrase):
        AgentRegistry(tmp_path).get("bad")


def test_a_failing_close_is_logged_and_the_others_are_closed(tmp_path: Path) -> None:
    write(tmp_path, "a", GOOD.replace("self.closed = True", "raise OSError('gone')"))
    write(tmp_path, "b", GOOD)
    agents, lines = AgentRegistry(tmp_path), KeptLines()
    agents.get("a")
    good = agents.get("b")
    agents.close(ServerLog(sink=lines))
    assert good.closed  # type: ignore[attr-defined]
    assert "repository agent 'a' failed in close: OSError: gone" in lines.text
