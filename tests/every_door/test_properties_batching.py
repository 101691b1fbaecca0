"""Answers from a batch are those of requests that ran alone, whatever came together and through whichever doors."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.every_door.bytes_doors import BYTES_DOORS, Ask, block_of
from tests.models import onnx_models
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_config

BATCHING = "max_batch_size: 8 dynamic_batching { max_queue_delay_microseconds: 3000 }"


def lay_out(repository):
    for name, more in (("alone", ""), ("together", BATCHING)):
        onnx_models.save(onnx_models.add_sub("FP32", ["N", "length"]), repository, f"numbers_{name}")
        onnx_models.save(onnx_models.identity("BYTES"), repository, f"text_{name}")
        for kind in ("numbers", "text"):
            write_config(repository, f"{kind}_{name}", more or "max_batch_size: 8")


@pytest.fixture(scope="module")
def threads():
    """One for each door, whose requests follow one another."""
    pools = [ThreadPoolExecutor(1) for _ in BYTES_DOORS]
    yield pools
    for pool in pools:
        pool.shutdown()


FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)


@st.composite
def asks(draw):
    """A request without its model's name: two inputs of numbers, or one of text."""
    rows, length = draw(st.integers(1, 3)), draw(st.integers(0, 2))
    count = rows * length
    if draw(st.booleans()):
        values = [draw(st.lists(FLOATS, min_size=count, max_size=count)) for _ in range(2)]
        arrays = [np.array(each, np.float32).reshape(rows, length) for each in values]
        return Ask("numbers", tuple(block_of(f"INPUT{n}", array, "FP32") for n, array in enumerate(arrays)))
    array = np.empty(count, np.object_)
    array[:] = draw(st.lists(st.text(max_size=4).map(str.encode), min_size=count, max_size=count))
    return Ask("text", (block_of("INPUT0", array.reshape(rows, length), "BYTES"),))


def test_batched_answers_are_those_of_requests_alone(server, doors, threads):
    def send(number, ask):
        place = number % len(doors)
        return threads[place].submit(doors[place].ask, ask)

    @settings(max_examples=40)
    @given(asked=st.lists(asks(), min_size=2, max_size=10))
    def check(asked):
        futures = [send(n, Ask(f"{ask.model}_together", ask.inputs)) for n, ask in enumerate(asked)]
        batched = [future.result(PATIENCE_S) for future in futures]
        alone = [doors[-1].ask(Ask(f"{ask.model}_alone", ask.inputs)) for ask in asked]
        assert batched == alone

    check()
    sizes = {each.batch_size for each in server.model("numbers_together").statistics().batches}
    assert max(sizes) > 3, "more rows than any request has ran together"
