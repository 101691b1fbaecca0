"""Repository agents: code that checks or changes a model's files before the model is loaded.

    from charonia.agents import AgentModel, RepositoryAgent

    class Agent(RepositoryAgent):
        def load(self, model: AgentModel) -> None:
            if not (model.location / "LICENSE").exists():
                raise ValueError("a model without a licence is not served")

As `<--repoagent-directory>/licensed/agent.py`, or as the entry point `licensed` of the group `charonia.agents`, it is
there for models that ask for it by `model_repository_agents { agents { name: "licensed" } }`.

base.py      what an agent is, and what it is given
checksum.py  the agent that comes with the server
registry.py  which agents there are
"""

from charonia.agents.base import AgentModel, RepositoryAgent

__all__ = ["AgentModel", "RepositoryAgent"]
