"""Two repositories with a model of one name, asked through every door."""

import numpy as np
import pytest

from charonia.api import Server
from tests.every_door.doors import DOORS, RefusedError, open_door
from tests.models.plus import write_plus
from tests.models.repository import write_config

IO = """
    max_batch_size: 4
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
    output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
"""
INLINE = 'parameters { key: "execution" value { string_value: "inline" } }'
STEP = """
    platform: "ensemble"
    ensemble_scheduling {
      step { model_name: "m" input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" } }
    }
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("namespaces")


@pytest.fixture(scope="module")
def server(folder):
    """`m` of /one adds 1, that of /two adds 2; `ens1` and `ens2` lie beside them."""
    for number, name in enumerate(("one", "two"), 1):
        write_plus(folder / name, IO + INLINE, number)
        write_config(folder / name, f"ens{number}", STEP + IO).joinpath("1").mkdir()
    ports = {"http_port": 0, "grpc_port": 0, "metrics_port": 0}
    made = Server([folder / "one", folder / "two"], model_namespacing=True, **ports).start()
    yield made
    made.stop()


@pytest.fixture(params=DOORS)
def door(request, server):
    opened = open_door(request.param, server)
    yield opened
    opened.close()


def value(door, model):
    return door.infer(model, {"IN": np.zeros((1, 1), np.float32)}).outputs["OUT"].ravel()[0]


def test_each_ensemble_asks_the_model_beside_it(door):
    assert (value(door, "ens1"), value(door, "ens2")) == (1, 2)


def test_a_name_that_two_have_is_ambiguous(door):
    with pytest.raises(RefusedError, match=r"There are 2 models named 'm', in .*one, .*two: .* ambiguity") as refused:
        value(door, "m")
    assert refused.value.code == "INVALID_ARGUMENT"
