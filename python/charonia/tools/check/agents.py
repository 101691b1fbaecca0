"""Repository agents in a check: whether they are there, and what can be said without running them.

Agents execute code of somebody's before a model is loaded, so that a check runs none but the server's own, `checksum`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from charonia.agents.checksum import expected_digests
from charonia.agents.registry import EMBEDDED, AgentRegistry
from charonia.config.findings import Finding, Severity
from charonia.core.errors import CharoniaError
from charonia.options import ServerOptions
from charonia.repository.inspection import ModelReading


@dataclass(frozen=True, slots=True)
class AgentFindings:
    """Attributes:
    is_open: whether an agent that is not run may make another folder of the model: then nothing in this one is wrong.
    """

    findings: tuple[Finding, ...]
    is_open: bool


def look_at_agents(reading: ModelReading, options: ServerOptions, *, loads: bool) -> AgentFindings:
    """
    Args:
        loads: whether the model is loaded after this, and its agents run then.
    """
    registry = AgentRegistry(Path(options.repoagent_directory))
    agents = reading.loaded.config.model_repository_agents.agents
    others = [agent.name for agent in agents if agent.name not in EMBEDDED]
    findings = list(_of_each(reading, registry, checks_digests=not others))
    missing = any(finding.is_error for finding in findings)
    if others and not missing and not loads:
        names = ", ".join(f"'{name}'" for name in others)
        at = "model_repository_agents"
        message = f"the repository agent {names} is not run by a check, and may change all that is in the folder"
        remedy = "look only at what follows of the configuration; charonia check --load runs it, and loads the model"
        findings.append(Finding(Severity.WARNING, at, reading.loaded.places.find(at), message, remedy))
    return AgentFindings(tuple(findings), bool(others))


def _of_each(reading: ModelReading, registry: AgentRegistry, *, checks_digests: bool) -> Iterable[Finding]:
    """`checks_digests`: no other agent comes before, so that the files are those that would be checked."""
    for index, agent in enumerate(reading.loaded.config.model_repository_agents.agents):
        path = f"model_repository_agents.agents[{index}]"
        try:
            if agent.name:  # else that is a finding already
                registry.check(agent.name)
            if agent.name == "checksum":
                for expected in expected_digests(agent.parameters):
                    if checks_digests:
                        expected.check(reading.model.path)
        except CharoniaError as error:
            yield Finding(Severity.ERROR, path, reading.loaded.places.find(path), str(error))
