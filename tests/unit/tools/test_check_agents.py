"""`charonia check` of models with repository agents: what it checks itself, and what it says it does not run."""

import hashlib
from pathlib import Path

import pytest

from charonia.options import ServerOptions
from charonia.tools.check.run import check
from tests.models.repository import write_config

IDENTITY = """
    backend: "identity" instance_group { count: 1 }
    input { name: "IN" data_type: TYPE_FP32 dims: -1 } output { name: "OUT" data_type: TYPE_FP32 dims: -1 }
    model_repository_agents { agents [ %s ] }
"""
AGENT = """
from charonia.agents import RepositoryAgent

class Agent(RepositoryAgent):
    def load(self, model):
        new = model.acquire_location()
        (new / "1").mkdir()
        model.replace_location(new)
"""


@pytest.fixture
def look(tmp_path: Path):
    """Checks a model with these agents; gives `severity: message; remedy` of each finding."""
    (tmp_path / "agents" / "unpack").mkdir(parents=True)
    (tmp_path / "agents" / "unpack" / "agent.py").write_text(AGENT)

    def run(agents: str, *, content: bytes | None = b"weights", load: bool = False) -> list[str]:
        folder = write_config(tmp_path / "models", "m", IDENTITY % agents)
        if content is not None:
            (folder / "1").mkdir(exist_ok=True)
            (folder / "1" / "weights").write_bytes(content)
        options = ServerOptions(
            model_repository=[str(tmp_path / "models")], repoagent_directory=str(tmp_path / "agents")
        )
        found = check(options, load=load).of("m")
        return [f"{each.finding.severity}: {each.finding.message}; {each.finding.remedy}" for each in found]

    return run


def checksum(digest: str, key: str = "SHA256:1/weights") -> str:
    return f'{{ name: "checksum" parameters {{ key: "{key}" value: "{digest}" }} }}'


def test_digests_are_compared(look) -> None:
    right = hashlib.sha256(b"weights").hexdigest()
    assert look(checksum(right)) == []
    (wrong,) = look(checksum(right), content=b"other")
    assert wrong.startswith("error: Mismatched SHA256 hash for file 1/weights")
    (unknown,) = look(checksum(right, "CRC:1/weights"))
    assert unknown.startswith("error: Unsupported checksum algorithm: 'CRC'")


def test_a_missing_agent(look) -> None:
    (missing,) = look('{ name: "decrypt" }')
    assert missing.startswith("error: unable to find the repository agent 'decrypt' (known: checksum, unpack)")


def test_what_is_not_run_is_said_and_the_folder_is_not_judged(look) -> None:
    (told,) = look('{ name: "unpack" }', content=None)
    assert told.startswith("warning: the repository agent 'unpack' is not run by a check")


def test_with_a_load_it_is_run(look) -> None:
    assert look('{ name: "unpack" }', content=None, load=True) == []


def test_a_digest_after_another_agent_is_left_to_the_load(look) -> None:
    (told,) = look(f'{{ name: "unpack" }}, {checksum("00")}')
    assert told.startswith("warning:")
