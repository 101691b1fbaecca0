"""Dynamic batching seen from outside: what was executed together, and in which order it was answered."""

import numpy as np
import pytest

from charonia.api import Server
from tests.every_door.doors import DOORS
from tests.every_door.served import LONG_US, ask, row, value_of
from tests.models import onnx_models
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_config


def test_requests_of_every_door_join_in_one_execution(gated, clients):
    served = gated(
        f"max_batch_size: 8 dynamic_batching {{ preferred_batch_size: [{len(DOORS)}] "
        f"max_queue_delay_microseconds: {LONG_US} }}"
    )
    served.gate.open()
    sent = [np.full((1, 3), value, np.float32) for value in range(len(DOORS))]
    asked = [
        clients.submit(ask, name, served.server, "m", {"IN": each}) for name, each in zip(DOORS, sent, strict=True)
    ]
    for each, future in zip(sent, asked, strict=True):
        np.testing.assert_array_equal(future.result(PATIENCE_S)["OUT"], each)
    counted = served.model.statistics()
    assert (counted.inference_count, counted.execution_count) == (len(DOORS), 1)
    assert served.batch_statistics() == {len(DOORS): 1}


def test_a_request_of_several_rows_joins_others(gated):
    served = gated(
        f"max_batch_size: 8 dynamic_batching {{ preferred_batch_size: [8] max_queue_delay_microseconds: {LONG_US} }}"
    )
    served.gate.open()
    futures = {rows: served.send(rows, rows=rows) for rows in (1, 2, 5)}
    for rows, future in futures.items():
        got = future.result(PATIENCE_S).outputs["OUT"].numpy()
        np.testing.assert_array_equal(got, np.full((rows, 1), rows, np.float32))
    assert served.batch_statistics() == {8: 1}
    assert served.model.statistics().inference_count == 8


def test_a_batch_never_exceeds_its_maximum(gated):
    served = gated("max_batch_size: 8 dynamic_batching { }")
    served.occupy()
    futures = [served.send(value, rows=3) for value in range(1, 8)]
    served.gate.open_for_good()
    for value, future in enumerate(futures, 1):
        assert value_of(future) == value
    assert served.batch_statistics() == {1: 1, 6: 3, 3: 1}


def test_the_largest_reachable_preferred_size_is_taken(gated):
    served = gated(
        "max_batch_size: 16 dynamic_batching { preferred_batch_size: [2, 4, 16] max_queue_delay_microseconds: 100000 }"
    )
    served.gate.open()
    served.send(0).result(PATIENCE_S)  # alone, when its delay is over
    assert served.gate.next_entered()["values"] == [0]
    served.occupy()
    futures = [served.send(value) for value in range(1, 17)]
    served.gate.open_for_good()
    assert [value_of(future) for future in futures] == list(range(1, 17))
    assert served.batch_statistics()[16] == 1
    assert served.model.statistics().execution_count == 3


def test_without_a_delay_what_waits_runs_at_once(gated):
    served = gated("max_batch_size: 16 dynamic_batching { preferred_batch_size: [8, 16] }")
    served.occupy()
    futures = [served.send(value) for value in range(1, 6)]
    served.gate.open(2)
    assert [value_of(future) for future in futures] == [1, 2, 3, 4, 5]
    assert served.batch_statistics() == {1: 1, 5: 1}


def test_without_dynamic_batching_requests_run_alone(gated):
    served = gated("max_batch_size: 16")
    served.occupy()
    futures = [served.send(value) for value in range(1, 5)]
    served.gate.open_for_good()
    assert [value_of(future) for future in futures] == [1, 2, 3, 4]
    assert served.batch_statistics() == {1: 5}


def test_only_equal_shapes_join(gated):
    served = gated("max_batch_size: 8 dynamic_batching { }")
    served.occupy()
    futures = [served.send(value, length=length) for value, length in enumerate((2, 2, 3, 3, 2), 1)]
    served.gate.open_for_good()
    assert [value_of(future) for future in futures] == [1, 2, 3, 4, 5]
    assert [served.gate.next_entered()["values"] for _ in range(3)] == [[1, 2], [3, 4], [5]]


def test_instances_work_side_by_side(gated):
    served = gated("max_batch_size: 4 instance_group [ { count: 2 } ]")
    futures = [served.send(1), served.send(2)]
    instances = {served.gate.next_entered()["instance"] for _ in futures}  # both are inside now
    assert len(instances) == 2
    served.gate.open(2)
    assert [value_of(future) for future in futures] == [1, 2]


def test_an_idle_instance_takes_what_comes_while_the_other_is_busy(gated):
    served = gated("max_batch_size: 4 dynamic_batching { } instance_group [ { count: 2 } ]", doors=(9,))
    stuck = served.send(9)
    served.gate.next_entered()
    served.gate.open()
    served.model.infer(IN=[[1.0]])
    assert not stuck.done()


ORDERED = """
    max_batch_size: 1
    dynamic_batching { preserve_ordering: %s }
    instance_group [ { count: 2 } ]
"""


def test_preserved_order_holds_the_faster_instances_answer_back(gated):
    served = gated(ORDERED % "true", doors=(1, 2, 3))
    first, second, third = served.send(1), served.send(2), None
    assert {served.gate.next_entered()["values"][0] for _ in range(2)} == {1, 2}
    third = served.send(3)
    served.gate.open(door=2)
    assert served.gate.next_entered()["values"] == [3]  # so the second one's answer has been given
    assert not second.done()
    answered = []
    for value, future in enumerate((first, second, third), 1):
        future.add_done_callback(lambda _, value=value: answered.append(value))
    served.gate.open(door=3)
    served.gate.open(door=1)
    assert [value_of(future) for future in (first, second, third)] == [1, 2, 3]
    assert answered == [1, 2, 3]


def test_preserved_order_waits_for_nobody_who_left(gated):
    served = gated(ORDERED % "true", doors=(1, 2, 4))
    first, second = served.send(1), served.send(2)
    assert {served.gate.next_entered()["values"][0] for _ in range(2)} == {1, 2}
    third, fourth = served.send(3), served.send(4)
    assert third.cancel()
    served.gate.open(door=2)
    assert served.gate.next_entered()["values"] == [4]
    assert first.cancel()  # it is executed all the same, and the order still holds
    served.gate.open(door=4)
    served.gate.open(door=1)
    assert (value_of(second), value_of(fourth)) == (2, 4)


def test_without_preserved_order_the_faster_answer_comes_first(gated):
    served = gated(ORDERED % "false", doors=(1, 2))
    first, second = served.send(1), served.send(2)
    served.gate.open(door=2)
    assert value_of(second) == 2
    assert not first.done()
    served.gate.open(door=1)
    assert value_of(first) == 1


ROWS = (1, 2, 1, 4, 1, 3)
"""Of the request of each door; together they are a batch."""


@pytest.fixture(scope="module")
def joining(tmp_path_factory):
    """Models whose batches form when as many rows are there as the doors send together, and never before."""
    folder = tmp_path_factory.mktemp("joining")
    batching = f"""
      max_batch_size: {sum(ROWS)}
      dynamic_batching {{ preferred_batch_size: [{sum(ROWS)}] max_queue_delay_microseconds: {LONG_US} }}
    """
    for datatype in JOINED:
        onnx_models.save(onnx_models.identity(datatype), folder, datatype)
        write_config(folder, datatype, batching)
    onnx_models.save(onnx_models.mlp((16, 32, 4)), folder, "mlp")
    write_config(folder, "mlp", batching)
    onnx_models.save(onnx_models.mlp((16, 32, 4)), folder, "alone")
    with Server(folder, http_port=0, grpc_port=0, exit_timeout_secs=5) as server:
        yield server


JOINED = ("FP32", "INT8", "BYTES", "BOOL", "INT64")


@pytest.mark.parametrize("datatype", JOINED)
def test_batched_answers_equal_what_was_sent_through_every_door(joining, clients, datatype):
    sent = [text_only(onnx_models.sample(datatype, (rows, 3), rows)) for rows in ROWS]
    asked = [
        clients.submit(ask, name, joining, datatype, {"INPUT0": each}) for name, each in zip(DOORS, sent, strict=True)
    ]
    for each, future in zip(sent, asked, strict=True):
        np.testing.assert_array_equal(future.result(PATIENCE_S)["OUTPUT0"], each)
    assert joining.model(datatype).statistics().execution_count == 1


def test_batched_answers_equal_unbatched_ones_through_every_door(joining, clients):
    sent = [onnx_models.sample("FP32", (rows, 16), seed) for seed, rows in enumerate(ROWS)]
    asked = [clients.submit(ask, name, joining, "mlp", {"input": each}) for name, each in zip(DOORS, sent, strict=True)]
    for each, future in zip(sent, asked, strict=True):
        alone = joining.model("alone").infer(input=each)["output"]
        np.testing.assert_allclose(future.result(PATIENCE_S)["output"], alone, rtol=1e-5, atol=1e-6)
    assert joining.model("mlp").statistics().execution_count == 1


def test_text_that_one_backend_can_not_take_never_harms_the_neighbour(joining):
    """ONNX Runtime's Python interface takes either form alone, and not both in one tensor."""
    model = joining.model("BYTES")
    half = sum(ROWS) // 2
    odd = model.submit({"INPUT0": np.array([[b"\xff"]] * half, np.object_)})
    good = model.submit({"INPUT0": np.array([[b"a\0b"]] * half, np.object_)})
    assert good.result(PATIENCE_S).outputs["OUTPUT0"].numpy().tolist() == [[b"a\0b"]] * half
    assert odd.exception(PATIENCE_S) is not None


def text_only(array):
    """Text that JSON can carry."""
    if array.dtype == np.object_:
        array[...] = [[element.hex().encode() for element in line] for line in array]
    return array


def test_a_request_without_an_optional_input_is_not_merged_with_one_that_has_it(gated):
    served = gated(
        'max_batch_size: 8 dynamic_batching { } input { name: "MORE" data_type: TYPE_INT32 dims: [1] optional: true }'
    )
    served.occupy()
    more = {"MORE": np.ones((1, 1), np.int32)}
    asked = [row(1), row(2), row(3) | more, row(4) | more, row(5)]
    futures = [served.model.submit(inputs) for inputs in asked]
    served.gate.open_for_good()
    assert [value_of(future) for future in futures] == [1, 2, 3, 4, 5]
    assert [served.gate.next_entered()["values"] for _ in range(3)] == [[1, 2], [3, 4], [5]]
