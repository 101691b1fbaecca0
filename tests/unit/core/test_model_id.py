"""Names with and without namespaces."""

from charonia.core.model_id import ModelId, model_id


def test_without_a_namespace_it_is_the_name():
    assert ModelId("m") == "m"
    assert {"m": 1}[ModelId("m")] == 1


def test_with_a_namespace_it_is_its_own_key():
    one, two = ModelId("m", "/one"), ModelId("m", "/two")
    assert (one, one.name, one.namespace) == ("/one::m", "m", "/one")
    assert len({one, two, ModelId("m", "/one")}) == 2


def test_what_is_one_already_stays_it():
    one = ModelId("m", "/one")
    assert model_id(one) is one
    assert model_id("m").namespace == ""
