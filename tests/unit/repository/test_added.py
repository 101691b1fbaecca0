"""Repositories that are added while the server runs, with names of their own for their models."""

import pytest

from charonia.core.errors import AlreadyExistsError, CharoniaError, InvalidArgumentError, UnavailableError
from charonia.core.model_id import ModelId
from charonia.core.overrides import NO_OVERRIDES as _NOTHING
from tests.unit.repository.served import PATIENCE_S, Repository, Served
from tests.unit.repository.test_ensembles import add_ensemble


class Added:
    """A server over a repository with `m`, and another one beside it."""

    def __init__(self, folder, mode="explicit", **options):
        self.first, self.second = Repository(folder / "first"), Repository(folder / "second")
        self.first.add("m", 1)
        self.second.add("model", 1, more='name: "written"')
        self.served = Served(self.first, mode=mode, **options)
        self.control = self.served.control
        self.path = str(self.second.path)

    def names(self):
        return sorted((each.name, each.id) for each in self.served.server.models.loaded())

    def index(self):
        return sorted(entry.name for entry in self.served.server.models.index())

    def remove(self, name):
        return self.control.remove(self.path, name, PATIENCE_S)


@pytest.fixture(params=[False, True], ids=["plain", "namespaces"])
def added(tmp_path, request):
    made = Added(tmp_path, model_namespacing=request.param)
    yield made
    made.served.close()


def test_a_model_is_served_under_the_name_that_it_is_given(added):
    added.control.add(added.path, "model", "given")
    (name,) = added.names()
    assert name[0] == "given"
    assert added.served.version("given").config.name == "given"
    assert "given" in added.index()
    assert "model" not in added.index()


def test_it_goes_with_its_repository(added):
    added.control.add(added.path, "model", "given")
    assert added.remove("given")
    assert added.names() == []
    added.control.add(added.path, "model", "another")
    assert [name for name, _ in added.names()] == ["another"]


def test_a_repository_and_a_name_are_added_once(added, tmp_path):
    added.control.add(added.path, "model", "given")
    third = Repository(tmp_path / "third")
    third.add("model", 1)
    for path, name in ((added.path, "other"), (str(third.path), "given"), (str(added.first.path), "other")):
        with pytest.raises(AlreadyExistsError):
            added.control.add(path, "model", name)
    assert [name for name, _ in added.names()] == ["given"]
    with pytest.raises(InvalidArgumentError, match="repository not found"):
        added.control.add(str(tmp_path / "nowhere"), "model", "other")


def test_what_can_not_be_loaded_is_not_added(added):
    added.second.write("broken/config.pbtxt", "max_batch_size: 4")
    with pytest.raises(CharoniaError):
        added.control.add(added.path, "broken", "given")
    assert added.names() == []
    added.control.add(added.path, "model", "given")
    assert [name for name, _ in added.names()] == ["given"]


def test_a_name_of_another_repository_stays_that_one_s(tmp_path):
    added = Added(tmp_path)
    try:
        added.served.control.load("m", _NOTHING)
        with pytest.raises(AlreadyExistsError, match="two or more repositories"):
            added.control.add(added.path, "model", "m")
        assert [name for name, _ in added.names()] == ["m"]
        added.control.add(added.path, "model", "given")
    finally:
        added.served.close()


def test_steps_come_and_go_with_their_ensemble(tmp_path):
    added = Added(tmp_path, model_namespacing=True)
    try:
        added.second.add("m", 1)
        add_ensemble(added.second, "ensemble", "m")
        added.served.control.load("m", _NOTHING)
        added.control.add(added.path, "ensemble", "given")
        here = ModelId("m", str(added.first.path))
        assert added.names() == [("given", f"{added.path}::given"), ("m", here), ("m", f"{added.path}::m")]
        assert added.remove("given")
        assert added.names() == [("m", here)]
        assert added.index() == ["m"]
    finally:
        added.served.close()


def test_only_under_explicit_control(tmp_path):
    added = Added(tmp_path, mode="none")
    try:
        with pytest.raises(UnavailableError, match="--model-control-mode=explicit"):
            added.control.add(added.path, "model", "given")
    finally:
        added.served.close()
