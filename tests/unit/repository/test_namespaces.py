"""Models of the same name in several repositories: which one a request, a step and a load mean."""

import shutil

import numpy as np
import pytest

from charonia.core.errors import InvalidArgumentError, NotFoundError
from charonia.core.model_id import ModelId
from charonia.core.overrides import NO_OVERRIDES, LoadOverrides
from charonia.core.tensor import HostBuffer, Tensor
from charonia.options import ServerOptions
from charonia.repository.namespaces import resolved
from charonia.repository.readiness import readiness_table
from charonia.tools.check.run import check
from tests.unit.repository.served import JSON, PATIENCE_S, Polling, Repository, Served
from tests.unit.repository.test_ensembles import add_ensemble


class Namespaces:
    """Two repositories: each has `m` and an ensemble of its own on it; the servers over them."""

    def __init__(self, folder):
        self.one, self.two = Repository(folder / "one"), Repository(folder / "two")
        self.one.add("m", 1, batch=4)
        self.two.add("m", 1, batch=8)
        add_ensemble(self.one, "ens1", "m", batch=4)
        add_ensemble(self.two, "ens2", "m", batch=8)
        self.made = []

    def serve(self, mode="explicit", **options):
        self.made.append(Served(self.one, self.two, mode=mode, model_namespacing=True, **options))
        return self.made[-1]

    def id(self, name, repository):
        return ModelId(name, str(repository.path))


@pytest.fixture
def spaces(tmp_path):
    made = Namespaces(tmp_path)
    yield made
    for each in made.made:
        each.close()


def load(served, name):
    served.control.load(name, NO_OVERRIDES)
    served.settle()


def ids(served):
    return [each.id for each in served.server.models.loaded()]


def step_of(served, ensemble):
    """The namespace of the model that the ensemble's step means."""
    return served.version(ensemble).config.ensemble_scheduling.step[0].model_namespace


def answer(served, name):
    tensor = Tensor("INPUT0", "FP32", (1, 1), HostBuffer(np.ones(1, np.float32), 4, owned=True))
    return served.server.client.submit(name, [tensor]).result(PATIENCE_S)


def test_a_step_means_the_model_of_its_own_namespace_or_the_only_one_of_its_name():
    ensemble, step = ModelId("e", "/one"), ModelId("m")
    one, two, three = (ModelId("m", f"/{name}") for name in ("one", "two", "three"))
    assert resolved(step, ensemble, [one, two]) == one
    assert resolved(step, ensemble, [two]) == two
    assert resolved(step, ensemble, [two, three]) == one
    assert resolved(two, ensemble, [one]) == one
    assert resolved(step, ModelId("e"), [ModelId("m")]) == "m"


def test_all_serve_and_a_name_that_two_have_is_ambiguous(spaces):
    served = spaces.serve("none")
    assert served.report.complete
    one, two = spaces.id("m", spaces.one), spaces.id("m", spaces.two)
    assert {one, two} < set(ids(served))
    with pytest.raises(InvalidArgumentError, match=r"There are 2 models named 'm', in .*one, .*two: .* ambiguity"):
        served.version("m")
    assert served.version(two).config.max_batch_size == 8
    assert sorted(served.index()) == [("ens1", 1, "READY"), ("ens2", 1, "READY"), ("m", 1, "READY"), ("m", 1, "READY")]
    with pytest.raises(InvalidArgumentError, match="ambiguity"):
        served.server.models.check_known("m")
    assert answer(served, "ens1").outputs["OUTPUT0"].shape == (1, 1)


def test_without_the_flag_such_models_are_refused(spaces):
    served = Served(spaces.one, spaces.two, mode="none")
    spaces.made.append(served)
    assert "two or more repositories" in served.reason("m")


def test_ensembles_take_the_model_of_their_own_repository(spaces):
    served = spaces.serve("none")
    assert step_of(served, "ens1") == str(spaces.one.path)
    assert step_of(served, "ens2") == str(spaces.two.path)
    answer(served, "ens1")
    counted = {each.id: each.statistics.inference_count for each in served.server.models.loaded()}
    assert counted[spaces.id("m", spaces.one)] == 1
    assert counted[spaces.id("m", spaces.two)] == 0


def test_an_ensemble_of_one_name_in_both(spaces):
    add_ensemble(spaces.one, "same", "m", batch=4)
    add_ensemble(spaces.two, "same", "m", batch=8)
    served = spaces.serve(load_model=["same"])
    assert set(ids(served)) == {spaces.id(n, r) for n in ("same", "m") for r in (spaces.one, spaces.two)}
    with pytest.raises(InvalidArgumentError, match="ambiguity"):
        answer(served, "same")
    assert answer(served, spaces.id("same", spaces.one)).outputs["OUTPUT0"].shape == (1, 1)


def test_another_model_of_its_name_further_down_is_no_circle(spaces):
    add_ensemble(spaces.one, "chain", "link", batch=4)
    add_ensemble(spaces.two, "link", "chain", batch=4)
    add_ensemble(spaces.two, "chain", "m", batch=4)
    spaces.two.add("m", 1, batch=4)
    served = spaces.serve("none")
    assert answer(served, spaces.id("chain", spaces.one)).outputs["OUTPUT0"].shape == (1, 1)


def test_a_circle_over_two_namespaces_is_one(spaces):
    add_ensemble(spaces.one, "chain", "link", batch=4)
    add_ensemble(spaces.two, "link", "chain", batch=4)
    served = spaces.serve("none")
    assert "needs itself" in served.reason("chain")
    report = check(ServerOptions(model_repository=served.server.options.model_repository, model_namespacing=True))
    assert any("the ensemble needs itself" in str(finding) for finding in report.findings)


def test_what_is_not_asked_for_makes_no_name_ambiguous(spaces):
    served = spaces.serve()
    load(served, "ens1")
    assert served.version("m").id == spaces.id("m", spaces.one)
    load(served, "m")
    with pytest.raises(InvalidArgumentError, match="ambiguity"):
        served.version("m")
    served.control.unload("m", False)
    served.settle()
    assert ids(served) == []
    with pytest.raises(NotFoundError):
        served.version("nope")


def test_a_configuration_of_a_request_is_for_all_of_the_name(spaces):
    served = spaces.serve()
    served.control.load("m", LoadOverrides(JSON % 3))
    assert [each.config.max_batch_size for each in served.server.models.loaded()] == [3, 3]


def test_polling_moves_an_ensemble_to_the_other_model_and_back(spaces, tmp_path):
    polling = Polling(served := spaces.serve("poll"))
    shutil.move(spaces.one.path / "m", tmp_path / "away")
    spaces.two.add("m", 1, batch=4)  # what serves both has to fit both
    add_ensemble(spaces.two, "ens2", "m", batch=4)
    polling.look()
    polling.look()
    assert step_of(served, "ens1") == str(spaces.two.path)
    assert served.version("m").id == spaces.id("m", spaces.two)
    shutil.move(tmp_path / "away", spaces.one.path / "m")
    polling.look()
    assert step_of(served, "ens1") == str(spaces.one.path)
    assert step_of(served, "ens2") == str(spaces.two.path)
    with pytest.raises(InvalidArgumentError, match="ambiguity"):
        served.version("m")


def test_a_step_that_two_others_have_is_lacking(spaces, tmp_path):
    add_ensemble(spaces.one, "needs", "x")
    spaces.two.add("x", 1)
    third = Repository(tmp_path / "three")
    third.add("x", 1)
    served = Served(spaces.one, spaces.two, third, mode="none", model_namespacing=True)
    spaces.made.append(served)
    assert "x" in served.reason("needs")
    assert not served.report.complete


def test_what_the_wire_knows_of_readiness(spaces):
    served = spaces.serve("none")
    rows = readiness_table(served.server.models)
    assert rows["ens1", ""][0] is True
    assert rows["m", ""] == (False, 0, False)
    assert rows[spaces.id("m", spaces.one), "1"][0] is True


def test_metrics_have_the_namespace_where_there_is_one(spaces):
    text = spaces.serve("none").server.metrics.text()
    for repository in (spaces.one, spaces.two):
        assert f'nv_inference_count{{model="m",namespace="{repository.path}",version="1"}} 0' in text
    other = Served(spaces.one, mode="none")
    spaces.made.append(other)
    assert 'nv_inference_count{model="m",version="1"} 0' in other.server.metrics.text()


def test_a_check_with_namespaces(spaces):
    options = ServerOptions(model_repository=[str(spaces.one.path), str(spaces.two.path)], model_namespacing=True)
    report = check(options)
    assert not report.count(errors=True), report.findings
    assert set(report.models) >= {spaces.id("m", spaces.one), spaces.id("m", spaces.two)}
    assert check(ServerOptions(model_repository=options.model_repository)).count(errors=True)
