"""Ensembles and the models of their steps: loaded, unloaded, brought back and checked together."""

import threading

import numpy as np
import pytest

from charonia.core.errors import InvalidArgumentError, NotFoundError, UnavailableError
from charonia.core.overrides import NO_OVERRIDES
from charonia.core.tensor import HostBuffer, Tensor
from tests.unit.repository.served import Repository, Served, polling_of

PATIENCE_S = 20.0
STEP = """step {
  model_name: "%s" model_version: %d
  input_map { key: "INPUT0" value: "%s" }
  output_map { key: "OUTPUT0" value: "%s" }
}
"""


def ensemble(*steps, batch=4, more=""):
    """Identity models one after the other; a step is a name, or a name and a version."""
    named = [step if isinstance(step, tuple) else (step, -1) for step in steps]
    names = ["INPUT0", *(f"t{number}" for number in range(1, len(named))), "OUTPUT0"]
    flow = "".join(STEP % (*step, names[at], names[at + 1]) for at, step in enumerate(named))
    return (
        f'platform: "ensemble" max_batch_size: {batch} {more}'
        'input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }'
        'output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }'
        f"ensemble_scheduling {{ {flow} }}"
    )


def add_ensemble(repository, name, *steps, **settings):
    (repository.path / name / "1").mkdir(parents=True, exist_ok=True)
    repository.write(f"{name}/config.pbtxt", ensemble(*steps, **settings))


@pytest.fixture
def repository(tmp_path):
    made = Repository(tmp_path / "models")
    for name in ("a", "b", "other"):
        made.add(name, 1)
    add_ensemble(made, "ens", "a", "b")
    return made


@pytest.fixture
def serve(repository):
    made = []

    def start(mode="explicit", **options):
        made.append(Served(repository, mode=mode, **options))
        return made[-1]

    yield start
    for each in made:
        each.close()


def load(served, name):
    served.control.load(name, NO_OVERRIDES)


def unload(served, name, dependents=False):
    served.control.unload(name, dependents)
    served.settle()


def ready(served):
    """The names of the models that serve."""
    return [each.name for each in served.server.models.loaded()]


def test_loading_an_ensemble_loads_its_steps(serve):
    served = serve()
    load(served, "ens")
    assert ready(served) == ["a", "b", "ens"]
    assert served.index("ens") == [(1, "READY")]
    assert served.server.ready


def test_loading_an_ensemble_again_touches_nothing_that_has_not_changed(serve, repository):
    served = serve()
    load(served, "ens")
    before = [served.version(name) for name in ("a", "b", "ens")]
    load(served, "ens")
    assert [served.version(name) for name in ("a", "b", "ens")] == before
    repository.write("b/1/model", "changed")
    load(served, "ens")
    assert [served.version(name) is old for name, old in zip(("a", "b", "ens"), before, strict=True)] == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize("mode", ["none", "poll"])
def test_at_the_start_an_ensemble_is_loaded_after_its_steps(serve, repository, mode):
    add_ensemble(repository, "a_first", "ens", "other")
    served = serve(mode)
    assert served.report.complete
    assert ready(served) == ["a", "a_first", "b", "ens", "other"]


def test_the_start_loads_the_steps_of_the_ensembles_that_it_is_told_to_load(serve):
    served = serve(load_model=["ens"])
    assert served.report.complete
    assert ready(served) == ["a", "b", "ens"]


def test_an_ensemble_of_ensembles_loads_all_that_those_need(serve, repository):
    add_ensemble(repository, "outer", "ens", "other")
    served = serve()
    load(served, "outer")
    assert ready(served) == ["a", "b", "ens", "other", "outer"]
    unload(served, "outer", dependents=True)
    assert ready(served) == []
    load(served, "outer")
    unload(served, "a")
    assert ready(served) == ["b", "other"]


def test_an_ensemble_needs_no_more_files_than_a_version_folder(serve, repository):
    repository.remove("ens/1")
    served = serve()
    with pytest.raises(InvalidArgumentError, match="at least one version must be available"):
        load(served, "ens")


def test_a_step_that_fails_is_named_with_its_reason_and_the_others_serve(serve, repository):
    repository.write("b/config.pbtxt", "no_such_field: 1")
    served = serve()
    with pytest.raises(
        InvalidArgumentError, match=r"load failed for model 'ens'.*step 2 needs model 'b', .*no_such_field"
    ):
        load(served, "ens")
    assert ready(served) == ["a"]
    assert served.index("ens") == [(1, "UNAVAILABLE")]
    assert not served.server.ready
    repository.add("b", 1)
    load(served, "b")
    assert ready(served) == ["a", "b", "ens"]
    assert served.server.ready


def test_the_traceback_of_a_step_is_told_without_escapes(serve, repository):
    """Also by the ensembles that need the ensemble."""
    repository.write("b/1/model.py", "class TritonPythonModel:\n    def initialize(self, args):\n        1 / 0\n")
    tensors = (repository.path / "b" / "config.pbtxt").read_text().replace('"identity"', '"python"')
    repository.write(
        "b/config.pbtxt", f'{tensors} parameters {{ key: "execution" value {{ string_value: "inline" }} }}'
    )
    add_ensemble(repository, "outer", "ens")
    served = serve()
    for name in ("ens", "outer"):
        with pytest.raises(InvalidArgumentError) as refused:
            load(served, name)
        said = str(refused.value)
        assert "ZeroDivisionError: division by zero At: " in said
        assert "\\" not in said


def test_a_step_that_no_repository_has(serve, repository):
    add_ensemble(repository, "ens", "a", "zzz")
    served = serve()
    with pytest.raises(InvalidArgumentError, match="step 2 needs model 'zzz', which does not serve: no repository"):
        load(served, "ens")


def test_a_step_that_is_nearly_named_as_a_model_that_is_not_loaded(serve, repository):
    repository.add("classifier", 1)
    add_ensemble(repository, "ens", "a", "classifer")
    served = serve()
    repository.add("classifiers", 1)  # since the start
    repository.remove("classifier")
    with pytest.raises(InvalidArgumentError, match=r'no repository of this server.*write model_name: "classifiers"'):
        load(served, "ens")


def test_a_step_that_fails_to_load_is_not_misspelt(serve, repository):
    repository.add("bb", 1)
    repository.write("b/config.pbtxt", "nonsense")
    served = serve()
    with pytest.raises(InvalidArgumentError, match="step 2 needs model 'b'") as refused:
        load(served, "ens")
    assert "write model_name" not in str(refused.value)


@pytest.mark.parametrize("name", ["../secret", "a/1", ".."])
def test_a_step_is_no_path(serve, repository, tmp_path, name):
    (tmp_path / "secret" / "1").mkdir(parents=True)
    repository.write("../secret/config.pbtxt", (repository.path / "a" / "config.pbtxt").read_text())
    add_ensemble(repository, "ens", "a", name)
    served = serve()
    with pytest.raises(InvalidArgumentError, match=f"step 2 needs model '{name}', which does not serve: no repository"):
        load(served, "ens")


def test_a_version_of_a_step_that_does_not_serve(serve, repository):
    add_ensemble(repository, "ens", "a", ("b", 3))
    served = serve()
    with pytest.raises(InvalidArgumentError, match="step 2 needs version 3 of 'b', which is not served; served are 1"):
        load(served, "ens")


def test_a_step_whose_tensors_do_not_fit(serve, repository):
    repository.write("b/config.pbtxt", (repository.path / "b/config.pbtxt").read_text().replace("FP32", "INT8"))
    served = serve()
    with pytest.raises(
        InvalidArgumentError, match=r"'t1' is TYPE_INT8 as input 'INPUT0' of step 2 \('b'\), and TYPE_FP32 as"
    ):
        load(served, "ens")


def test_ensembles_that_need_one_another(serve, repository):
    add_ensemble(repository, "x", "a", "y")
    add_ensemble(repository, "y", "x")
    add_ensemble(repository, "z", "y")
    served = serve()
    with pytest.raises(InvalidArgumentError, match="ensemble 'x' needs itself: x → y → x"):
        load(served, "x")
    with pytest.raises(InvalidArgumentError, match=r"step 1 needs model 'y'.*ensemble 'y' needs itself: y → x → y"):
        load(served, "z")
    assert ready(served) == ["a"]


def test_unloading_a_step_unloads_the_ensemble_which_comes_back_with_it(serve):
    served = serve()
    load(served, "ens")
    unload(served, "a")
    assert ready(served) == ["b"]
    assert served.index("ens") == [(1, "UNAVAILABLE")]
    assert served.reason("ens") == "unloaded"
    assert served.server.ready
    load(served, "a")
    assert ready(served) == ["a", "b", "ens"]


def test_an_ensemble_that_was_unloaded_itself_does_not_come_back(serve):
    served = serve()
    load(served, "ens")
    unload(served, "a")
    unload(served, "ens")
    load(served, "a")
    assert ready(served) == ["a", "b"]


def test_unloading_an_ensemble_leaves_its_steps(serve):
    served = serve()
    load(served, "ens")
    unload(served, "ens")
    assert ready(served) == ["a", "b"]


def test_its_dependents_are_what_only_the_ensemble_needs(serve, repository):
    add_ensemble(repository, "second", "b", "other")
    served = serve()
    load(served, "ens")
    load(served, "second")
    unload(served, "ens", dependents=True)
    assert ready(served) == ["b", "other", "second"]
    load(served, "other")
    unload(served, "second", dependents=True)
    assert ready(served) == ["other"]  # which was asked for by name


def test_a_step_that_changes_is_checked_with_the_ensemble_again(serve, repository):
    served = serve()
    load(served, "ens")
    before = served.version("ens")
    repository.add("b", 1, batch=8)
    load(served, "b")
    assert served.version("ens") is before
    repository.add("b", 1, batch=2)
    load(served, "b")
    served.settle()
    assert ready(served) == ["a", "b"]  # the ensemble takes larger batches
    assert any("max_batch_size of the ensemble is 4" in line for line in served.lines.lines)
    repository.add("b", 1, batch=4)
    load(served, "b")
    assert ready(served) == ["a", "b", "ens"]


def test_a_failed_reload_of_a_step_leaves_the_ensemble_serving(serve, repository):
    served = serve()
    load(served, "ens")
    before = served.version("ens")
    repository.write("b/config.pbtxt", "no_such_field: 1")
    with pytest.raises(InvalidArgumentError):
        load(served, "b")
    load(served, "ens")  # it was asked for, and it serves
    assert served.version("ens") is before


def test_polling_takes_ensembles_along_with_their_steps(repository, serve):
    served = serve("poll")
    server = served.server
    polling = polling_of(server)
    polling.look()

    def look():
        for _ in range(2):
            for begun in polling.look():
                begun.result(PATIENCE_S)
        served.settle()

    look()
    repository.remove("a")
    look()
    assert ready(served) == ["b", "other"]
    repository.add("a", 1)
    look()
    assert ready(served) == ["a", "b", "ens", "other"]
    add_ensemble(repository, "late", "a", "new")
    look()
    assert "late" not in ready(served)
    repository.add("new", 1)
    look()
    assert ready(served) == ["a", "b", "ens", "late", "new", "other"]
    polling.close()


def test_operations_on_ensembles_and_steps_from_many_threads_end(serve, repository):
    add_ensemble(repository, "second", "b", "a")
    served = serve()
    names = ("ens", "second", "a", "b")
    errors = []

    def work(at):
        try:
            for turn in range(10):
                name = names[(at + turn) % 4]
                if turn % 3 == at % 3:
                    served.control.unload(name, turn % 2 == 0)
                else:
                    load(served, name)
        except InvalidArgumentError as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(at,), daemon=True) for at in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert not any(thread.is_alive() for thread in threads)
    assert not errors
    for name in names:
        load(served, name)
    assert ready(served) == ["a", "b", "ens", "second"]


def test_an_ensemble_is_ready_while_its_steps_are(serve):
    served = serve()
    load(served, "ens")
    version = served.version("ens")
    assert version.live_instances == 1
    for runner in served.version("b").instances:
        runner.instance.alive = False
    served.version("b")._instances.runners = ()
    assert version.live_instances == 0
    assert not served.server.ready


def ask(served, name, rows=1):
    data = np.arange(rows, dtype=np.float32).reshape(rows, 1)
    return served.server.client.submit(
        name, [Tensor("INPUT0", "FP32", data.shape, HostBuffer(data, data.nbytes, owned=True))]
    )


class Gate:
    """Holds what a model executes."""

    def __init__(self, version):
        self.entered, self._open = threading.Event(), threading.Event()
        (runner,) = version.instances
        self._start = runner.instance.start
        runner.instance.start = self._run

    def _run(self, batch):
        self.entered.set()
        assert self._open.wait(PATIENCE_S)
        self._start(batch)

    def open(self):
        self._open.set()


@pytest.mark.parametrize(("name", "dependents"), [("ens", True), ("b", False), ("a", False)])
def test_what_the_ensemble_accepted_is_answered_before_its_steps_go(serve, name, dependents):
    served = serve()
    load(served, "ens")
    gate = Gate(served.version("a"))
    accepted = ask(served, "ens")
    assert gate.entered.wait(PATIENCE_S)
    served.control.unload(name, dependents)
    assert served.index("ens") == [(1, "UNLOADING")]
    late = ask(served, "ens")
    with pytest.raises((UnavailableError, NotFoundError)):
        late.result(PATIENCE_S)
    if name == "b":  # not by itself either, though it still answers the ensemble
        with pytest.raises((UnavailableError, NotFoundError)):
            ask(served, "b").result(PATIENCE_S)
    gate.open()
    assert accepted.result(PATIENCE_S).outputs["OUTPUT0"].shape == (1, 1)
    served.settle()
    assert "ens" not in ready(served)


def test_a_reload_of_a_step_loses_no_request_of_the_ensemble(serve, repository):
    served = serve()
    load(served, "ens")
    gate = Gate(served.version("a"))
    accepted = [ask(served, "ens") for _ in range(8)]
    assert gate.entered.wait(PATIENCE_S)
    for changed in ("a", "b"):
        repository.write(f"{changed}/1/model", "changed")
        load(served, changed)
    accepted += [ask(served, "ens") for _ in range(8)]
    gate.open()
    for each in accepted:
        assert each.result(PATIENCE_S).outputs["OUTPUT0"].shape == (1, 1)
    served.settle()
    assert ready(served) == ["a", "b", "ens"]


def test_labels_are_those_of_the_step_that_makes_the_output(serve, repository):
    labelled = (
        (repository.path / "b/config.pbtxt")
        .read_text()
        .replace('name: "OUTPUT0"', 'name: "OUTPUT0" label_filename: "labels.txt"')
    )
    repository.write("b/labels.txt", "cat\ndog\n")
    repository.write("b/config.pbtxt", labelled)
    add_ensemble(repository, "outer", "ens")
    served = serve()
    load(served, "outer")
    assert served.version("outer").labels == {"OUTPUT0": ("cat", "dog")}
    repository.write("b/labels.txt", "cow\npig\n")
    load(served, "b")
    assert served.version("outer").labels == {"OUTPUT0": ("cow", "pig")}


def is_decoupled(served, name):
    config = served.version(name).config
    assert config.model_transaction_policy.decoupled is served.version(name).decoupled
    return served.version(name).decoupled


def test_an_ensemble_is_decoupled_as_long_as_a_step_is(serve, repository):
    """Whatever its own configuration says; also through an ensemble among its steps."""
    decoupled = "model_transaction_policy { decoupled: true }"
    add_ensemble(repository, "outer", "ens", more=decoupled)
    served = serve()
    load(served, "outer")
    assert not is_decoupled(served, "outer")
    repository.add("b", 1, more=decoupled)
    load(served, "b")
    assert is_decoupled(served, "ens")
    assert is_decoupled(served, "outer")
    repository.add("b", 1)
    load(served, "b")
    assert not is_decoupled(served, "outer")


def test_what_is_unknown_is_still_unknown(serve):
    served = serve()
    with pytest.raises(NotFoundError, match="failed to load 'nope'"):
        load(served, "nope")
    unload(served, "nope", dependents=True)
