"""Which ensembles need which models."""

import pytest

from charonia.repository.needs import Needs, in_layers


@pytest.fixture
def needs() -> Needs:
    """`outer` runs `inner` and `c`; `inner` runs `a` and `b`; `other` runs `a`."""
    made = Needs()
    for name, steps in {"outer": ("inner", "c"), "inner": ("a", "b", "a"), "other": ("a",)}.items():
        made.set(name, steps)
    return made


def test_a_layer_needs_nothing_but_earlier_ones() -> None:
    steps = {"outer": ["inner", "a"], "a": [], "inner": ["a", "elsewhere"], "b": ()}
    assert in_layers(steps) == [["a", "b"], ["inner"], ["outer"]]
    assert in_layers({}) == []


def test_what_needs_itself_comes_last() -> None:
    assert in_layers({"x": ["y"], "y": ["x"], "z": ["x"], "a": []}) == [["a"], ["x", "y", "z"]]


def test_ensembles_on_a_model_come_in_the_order_of_their_needs(needs: Needs) -> None:
    found = needs.ensembles_on(["a"])
    assert set(found) == {"inner", "outer", "other"}
    assert found.index("inner") < found.index("outer")
    assert needs.ensembles_on(["c"]) == ["outer"]
    assert needs.ensembles_on(["outer"]) == []


def test_what_is_left_needs_nobody_and_was_not_asked_for(needs: Needs) -> None:
    assert set(needs.left_by("outer")) == {"inner", "b", "c"}  # `other` needs `a` too
    needs.ask(["b"])
    assert set(needs.left_by("outer")) == {"inner", "c"}
    needs.drop(["other", "b"])
    assert set(needs.left_by("outer")) == {"inner", "a", "b", "c"}
    assert needs.left_by("inner") == ["a", "b"]


def test_a_model_that_is_no_ensemble_any_more(needs: Needs) -> None:
    needs.set("other", ())
    assert set(needs.ensembles_on(["a"])) == {"inner", "outer"}
