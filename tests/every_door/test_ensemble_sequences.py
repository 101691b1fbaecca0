"""Sequences through ensembles: the step that keeps a sum sees each sequence in order, the others may reorder."""

import numpy as np
import pytest

from tests.every_door.doors import RefusedError
from tests.every_door.test_ensembles import ensemble, identity
from tests.every_door.test_sequences import FORMS, STRATEGIES, Client, _ids, count_of, sums_of_a_stream, write

MANY = "instance_group { count: 3 kind: KIND_CPU }"
MODELS = [f"{form}_{strategy}_chain" for form in FORMS for strategy in STRATEGIES]


def lay_out(repository):
    identity(repository, "before", "INT32", dims="1", max_batch_size=4, more=MANY)
    identity(repository, "after", "INT64", dims="4", max_batch_size=4, more=MANY)
    for form in FORMS:
        for name, strategy in STRATEGIES.items():
            write(repository, f"{form}_{name}", form=form, strategy=strategy)
            ensemble(
                repository,
                f"{form}_{name}_chain",
                [("IN", "INT32", "dims: [ 1 ]")],
                [("OUT", "INT64", "dims: [ 4 ]")],
                ("before", {"IN": "IN"}, {"OUT": "x"}),
                (f"{form}_{name}", {"IN": "x"}, {"OUT": "sum"}),
                ("after", {"IN": "sum"}, {"OUT": "OUT"}),
            )


@pytest.mark.parametrize("model", MODELS)
def test_a_sequence_sums_up(door, server, model):
    client = Client(door, model)
    told = [client.send(5, start=True), client.send(6), client.send(7, end=True)]
    assert [each[:3] for each in told] == [[5, 1, 0], [11, 0, 0], [18, 0, 1]]
    assert count_of(server, model.removesuffix("_chain")) == 0


@pytest.mark.parametrize("model", MODELS)
def test_one_that_does_not_begin_is_refused(door, model):
    with pytest.raises(RefusedError, match=f"in ensemble '{model}', step 2 .*START flag"):
        Client(door, model).send(1)


@pytest.mark.parametrize("model", MODELS)
def test_the_order_is_kept_with_many_in_flight(server, model):
    """The other steps have three instances each."""
    assert sums_of_a_stream(server, model) == [np.cumsum(range(100)).tolist()] * 4


@pytest.mark.parametrize("model", MODELS)
def test_many_sequences_side_by_side(server, model, clients):
    handle = server.model(model)

    def one(number):
        key = f"text {next(_ids)}"
        for turn in range(20):
            inputs = {"IN": np.array([[number]], np.int32)}
            flags = {"sequence_start": turn == 0, "sequence_end": turn == 19}
            last = handle.infer(inputs, sequence_id=key, **flags)["OUT"].ravel()[0]
        return int(last)

    assert list(clients.map(one, range(24))) == [number * 20 for number in range(24)]
