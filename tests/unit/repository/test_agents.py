"""Repository agents in a server: what they are told and when, what they may change, and what their faults do."""

import hashlib
import shutil
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from textwrap import dedent

import pytest

from charonia.core.errors import CharoniaError, InvalidArgumentError
from charonia.core.overrides import NO_OVERRIDES, LoadOverrides
from tests.unit.repository.served import CONFIG, JSON, PATIENCE_S, Repository, Served, polling_of
from tests.unit.repository.test_ensembles import ensemble

# Notes every stage in a file; does in it what the parameter of the stage's name says.
NOTING = """
    import shutil
    import threading
    from pathlib import Path
    from charonia.agents import RepositoryAgent

    class Agent(RepositoryAgent):
        def __init__(self):
            self.gate = threading.Event()
            self.hangs = threading.Event()
            self.hangs_in_close = False
            self.models = []

        def close(self):
            if self.hangs_in_close:
                self.gate.wait()

        def note(self, model, stage):
            who = model.parameters.get("who", "")
            with open(model.parameters["notes"], "a") as notes:
                notes.write(f"{who}{stage} {model.name}\\n")
            wanted = model.parameters.get(stage, "")
            if wanted == "raise":
                raise RuntimeError(f"no {stage} today")
            if wanted == "exit":
                raise SystemExit("leaving")
            if wanted == "hang":
                self.hangs.set()
                self.gate.wait()
            return wanted

        def load(self, model):
            self.models.append(model)
            wanted = self.note(model, "load")
            if wanted in ("move", "rename", "bare"):
                new = model.acquire_location()
                shutil.copytree(model.location, new, dirs_exist_ok=True)
                if wanted == "rename":
                    config = (new / "config.pbtxt").read_text().replace("max_batch_size: 4", "max_batch_size: 3")
                    (new / "config.pbtxt").write_text(config)
                if wanted == "bare":
                    (new / "config.pbtxt").unlink()
                model.replace_location(new)
            if wanted == "nowhere":
                model.replace_location(model.location / "nowhere")

        def load_complete(self, model):
            self.note(model, "load_complete")

        def load_fail(self, model):
            self.note(model, "load_fail")

        def unload(self, model):
            self.note(model, "unload")

        def unload_complete(self, model):
            self.note(model, "unload_complete")
"""
WHOLE_LIFE = ["load a", "load_complete a", "unload a", "unload_complete a"]


class Noted:
    """A repository, a folder of agents, and what the agent `noting` was told."""

    def __init__(self, path):
        self.repository = Repository(path / "models")
        self.agents = path / "agents"
        self.notes = path / "notes"
        (self.agents / "noting").mkdir(parents=True)
        (self.agents / "noting" / "agent.py").write_text(dedent(NOTING))

    def wanting(self, *each):
        """The lines of a configuration that ask for `noting`, once for each mapping of parameters."""
        asked = [self._agent({"notes": str(self.notes), **parameters}) for parameters in each or ({},)]
        return f"model_repository_agents {{ agents [ {', '.join(asked)} ] }}"

    def _agent(self, parameters):
        given = " ".join(f'parameters {{ key: "{key}" value: "{value}" }}' for key, value in parameters.items())
        return f'{{ name: "noting" {given} }}'

    def told(self):
        return self.notes.read_text().splitlines() if self.notes.exists() else []


@pytest.fixture
def noted(tmp_path):
    return Noted(tmp_path)


@pytest.fixture
def serve(noted):
    made = []

    def start(mode="explicit", **options):
        made.append(Served(noted.repository, mode=mode, repoagent_directory=str(noted.agents), **options))
        return made[-1]

    yield start
    for each in made:
        each.close()


def agent_of(served):
    return served.server._agents.registry.get("noting")


@pytest.fixture
def clients():
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_a_whole_life(noted, serve):
    noted.repository.add("a", 1, 2, more=noted.wanting())
    served = serve()
    assert noted.told() == []
    served.control.load("a", NO_OVERRIDES)
    assert served.index("a") == [(2, "READY")]
    assert noted.told() == WHOLE_LIFE[:2]
    served.control.load("a", NO_OVERRIDES)  # nothing has changed
    assert noted.told() == WHOLE_LIFE[:2]
    served.control.unload("a", dependents=False)
    served.settle()
    assert noted.told() == WHOLE_LIFE


def test_what_has_changed_begins_a_life_of_its_own(noted, serve):
    noted.repository.add("a", 1, more=noted.wanting({"who": "first "}))
    served = serve()
    served.control.load("a", NO_OVERRIDES)
    noted.repository.add("a", 1, more=noted.wanting({"who": "second "}))
    served.control.load("a", NO_OVERRIDES)
    served.settle()
    told = noted.told()
    assert [line for line in told if line.startswith("first")] == [f"first {line}" for line in WHOLE_LIFE]
    assert [line for line in told if line.startswith("second")] == [f"second {line}" for line in WHOLE_LIFE[:2]]
    assert told.index("second load_complete a") < told.index("first unload a")


def test_the_stop_of_the_server_ends_lives(noted, serve):
    noted.repository.add("a", 1, more=noted.wanting({"load": "move"}))
    served = serve(mode="none")
    moved = agent_of(served).models[0].end_load()
    assert moved.is_dir()
    served.close()
    assert noted.told() == WHOLE_LIFE
    assert not moved.parent.parent.exists()


@pytest.mark.parametrize(("how", "why"), [("raise", "RuntimeError: no load today"), ("exit", "SystemExit: leaving")])
def test_a_refusal_is_the_reason(noted, serve, how, why):
    noted.repository.add("a", 1, more=noted.wanting({"load": how}))
    noted.repository.add("b", 1)
    served = serve(mode="none")
    assert served.index("b") == [(1, "READY")]
    assert served.reason("a") == f"repository agent 'noting' refuses model 'a': {why}"
    assert noted.told() == ["load a", "load_fail a"]


def test_a_refusal_keeps_what_serves(noted, serve):
    noted.repository.add("a", 1, more=noted.wanting())
    served = serve()
    served.control.load("a", NO_OVERRIDES)
    before = served.version("a")
    noted.repository.add("a", 1, more=noted.wanting({"load": "raise"}))
    with pytest.raises(InvalidArgumentError, match="load failed for model 'a': repository agent 'noting' refuses"):
        served.control.load("a", NO_OVERRIDES)
    assert served.version("a") is before
    assert noted.told() == [*WHOLE_LIFE[:2], "load a", "load_fail a"]


def test_a_model_that_fails_after_its_agents(noted, serve):
    noted.repository.add(
        "a", 1, more=noted.wanting() + 'parameters { key: "execute_delay_ms" value { string_value: "x" } }'
    )
    served = serve(mode="none")
    assert "execute_delay_ms" in served.reason("a")
    assert noted.told() == ["load a", "load_fail a"]


def test_a_configuration_that_is_wrong_after_its_agents(noted, serve):
    noted.repository.add("a", 1, more=noted.wanting(), batch=-1)
    served = serve(mode="none")
    assert "max_batch_size is -1" in served.reason("a")
    assert noted.told() == ["load a", "load_fail a"]


def test_one_of_several_refuses(noted, serve):
    noted.repository.add("a", 1, more=noted.wanting({"who": "1 "}, {"who": "2 ", "load": "raise"}, {"who": "3 "}))
    serve(mode="none")
    assert noted.told() == ["1 load a", "2 load a", "1 load_fail a", "2 load_fail a"]


def test_another_folder_with_another_configuration(noted, serve):
    noted.repository.add("a", 1, more=noted.wanting({"load": "rename"}))
    served = serve()
    served.control.load("a", NO_OVERRIDES)
    assert served.version("a").config.max_batch_size == 3
    (model,) = agent_of(served).models
    moved = model.end_load()
    assert moved.name == "a"
    assert moved.is_dir()
    served.control.load("a", NO_OVERRIDES)
    assert len(agent_of(served).models) == 1
    served.control.unload("a", dependents=False)
    served.settle()
    assert not moved.exists()
    assert (noted.repository.path / "a" / "config.pbtxt").exists()


def test_another_folder_without_a_configuration_has_that_of_the_repository(noted, serve):
    noted.repository.add("a", 1, more=noted.wanting({"load": "bare"}, {"who": "second "}))
    served = serve(mode="none")
    assert served.version("a").config.max_batch_size == 4
    first, second = agent_of(served).models
    assert second.location == first.end_load() != first.location
    assert first.config.max_batch_size == 4
    assert second.config is None


def test_the_folder_may_only_be_replaced_by_one_and_only_in_load(noted, serve):
    noted.repository.add("a", 1, more=noted.wanting({"load": "nowhere"}))
    noted.repository.add("b", 1, more=noted.wanting())
    served = serve(mode="none")
    assert "there is no such folder" in served.reason("a")
    model = agent_of(served).models[-1]
    with pytest.raises(InvalidArgumentError, match="only be replaced while `load` runs"):
        model.replace_location(model.location)


def test_what_is_told_of_a_load_request(noted, serve):
    """Its configuration goes before the file, also in which agents it asks for."""
    noted.repository.add("a", 1, more=noted.wanting())
    served = serve()
    parameters = f'{{"notes": "{noted.notes}", "load": "move"}}'
    agents = f'"model_repository_agents": {{"agents": [{{"name": "noting", "parameters": {parameters}}}]}}'
    served.control.load("a", LoadOverrides((JSON % 2)[:-1] + f", {agents}}}"))
    (model,) = agent_of(served).models
    assert model.config.max_batch_size == 2
    assert served.version("a").config.max_batch_size == 2


@pytest.mark.parametrize("stage", ["load_complete", "unload", "unload_complete"])
def test_a_fault_in_another_stage_is_only_logged(noted, serve, stage):
    noted.repository.add("a", 1, more=noted.wanting({stage: "raise"}))
    served = serve()
    served.control.load("a", NO_OVERRIDES)
    served.control.unload("a", dependents=False)
    served.settle()
    assert noted.told() == WHOLE_LIFE
    assert (
        f"repository agent 'noting' failed in {stage} of model 'a': RuntimeError: no {stage} today" in served.lines.text
    )


@pytest.mark.parametrize("stage", ["load_complete", "unload", "unload_complete"])
def test_an_agent_that_hangs_is_left_behind(noted, serve, stage):
    noted.repository.add("a", 1, more=noted.wanting({stage: "hang"}))
    served = serve()
    served.server._agents._notice_s = 0.01
    served.control.load("a", NO_OVERRIDES)
    served.control.unload("a", dependents=False)
    served.settle()
    assert f"has not ended {stage} of model 'a' after 0.01 s: going on without it" in served.lines.text
    assert noted.told() == WHOLE_LIFE[: WHOLE_LIFE.index(f"{stage} a") + 1]
    agent_of(served).gate.set()


def test_an_agent_that_hangs_at_the_end_of_the_server_is_left_behind(noted, serve):
    noted.repository.add("a", 1, more=noted.wanting())
    served = serve(mode="none")
    agent = agent_of(served)
    agent.hangs_in_close, served.server._agents._notice_s = True, 0.01
    served.close()
    assert noted.told() == WHOLE_LIFE
    assert "the repository agents have not ended close after 0.01 s" in served.lines.text
    agent.gate.set()


def test_a_stop_does_not_wait_for_an_agent_that_prepares(noted, serve, clients):
    noted.repository.add("a", 1, more=noted.wanting({"load": "hang"}))
    served = serve()
    loading = clients.submit(served.control.load, "a", NO_OVERRIDES)
    assert agent_of(served).hangs.wait(PATIENCE_S)
    served.server.begin_stop()
    with pytest.raises(CharoniaError, match="the server is stopping"):
        loading.result(PATIENCE_S)
    agent_of(served).gate.set()


def test_ensembles_and_their_steps_have_agents_too(noted, serve):
    noted.repository.add("a", 1, more=noted.wanting())
    (noted.repository.path / "whole" / "1").mkdir(parents=True)
    noted.repository.write("whole/config.pbtxt", ensemble("a", more=noted.wanting({"load": "move"})))
    served = serve()
    served.control.load("whole", NO_OVERRIDES)
    assert served.index("whole") == [(1, "READY")]
    assert noted.told().count("load a") == noted.told().count("load_complete a") == 1
    assert noted.told().count("load_complete whole") == 1
    served.control.unload("a", dependents=False)
    served.settle()
    told = noted.told()
    assert told.count("unload_complete a") == told.count("unload_complete whole") == 1
    assert told.count("load whole") == told.count("load_fail whole") + told.count("load_complete whole")


def test_polling_runs_them_for_what_has_changed(noted, serve):
    noted.repository.add("a", 1, more=noted.wanting())
    served = serve(mode="poll")
    server = served.server
    polling = polling_of(server)
    polling.begin({})
    assert noted.told() == WHOLE_LIFE[:2]
    for _ in range(2):
        for done in polling.look():
            done.result(PATIENCE_S)
    assert noted.told() == WHOLE_LIFE[:2]
    noted.repository.add("a", 1, batch=2, more=noted.wanting())
    for _ in range(2):
        for done in polling.look():
            done.result(PATIENCE_S)
    served.settle()
    assert noted.told().count("load a") == 2
    assert noted.told().count("unload_complete a") == 1
    polling.close()


def test_the_checksum_agent(noted, serve):
    def checksum(digest):
        given = f'parameters {{ key: "SHA256:1/model" value: "{digest}" }}'
        return f'model_repository_agents {{ agents {{ name: "checksum" {given} }} }}'

    right = hashlib.sha256(b"").hexdigest()
    noted.repository.add("right", 1, more=checksum(right))
    noted.repository.add("wrong", 1, more=checksum("ab"))
    served = serve(mode="none")
    assert served.index("right") == [(1, "READY")]
    assert f"'wrong': Mismatched SHA256 hash for file 1/model, expect: ab, got: {right}" in served.reason("wrong")
    assert "| checksum         | embedded |" in served.lines.text
    noted.repository.write("right/1/model", "forged")


def test_a_missing_agent_keeps_the_model_from_being_served(noted, serve):
    noted.repository.add("a", 1, more='model_repository_agents { agents { name: "decrypt" } }')
    served = serve(mode="none")
    assert "unable to find the repository agent 'decrypt' (known: checksum, noting)" in served.reason("a")


def test_the_example_of_the_docs(noted, serve):
    page = (Path(__file__).parents[3] / "docs" / "repository-agents.md").read_text()
    (noted.agents / "unpack").mkdir()
    (noted.agents / "unpack" / "agent.py").write_text(page.split("```python\n")[1].split("```")[0])
    noted.repository.add("a", 1)
    folder = noted.repository.path / "a"
    with zipfile.ZipFile(folder / "model.zip", "w") as archive:
        archive.write(folder / "1" / "model", "1/model")
    shutil.rmtree(folder / "1")
    noted.repository.write("a/config.pbtxt", f'{CONFIG % 4} model_repository_agents {{ agents {{ name: "unpack" }} }}')
    served = serve(mode="none")
    assert served.index("a") == [(1, "READY")], served.lines.text
