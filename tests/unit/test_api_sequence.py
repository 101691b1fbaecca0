"""Sequences in process: a model that adds up what its sequence has sent, on two slots."""

import asyncio
from textwrap import dedent

import numpy as np
import pytest

import charonia
from charonia.core.errors import CharoniaError, InvalidArgumentError

PATIENCE_S = 20

CONFIG = """
backend: "python"
max_batch_size: 2
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "SUM" data_type: TYPE_INT32 dims: [ 1 ] }
sequence_batching {
  max_sequence_idle_microseconds: 3600000000
  control_input {
    name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] }
  }
  control_input { name: "ID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }
}
parameters { key: "execution" value { string_value: "inline" } }
"""

MODEL = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        x, start, id = (
            int(pb_utils.get_input_tensor_by_name(request, name).as_numpy().ravel()[0]) for name in ("X", "START", "ID")
        )
        if x < 0:
            return pb_utils.InferenceResponse(error=pb_utils.TritonError("negative", pb_utils.TritonError.INVALID_ARG))
        self.sums[id] = x + (0 if start else self.sums.get(id, 0))  # empty slots come too
        return pb_utils.InferenceResponse([pb_utils.Tensor("SUM", np.array([[self.sums[id]]], np.int32))])
"""


@pytest.fixture(params=["accumulate", "ensemble"])
def model(tmp_path, request):
    """The model itself, and the same as a step of an ensemble."""
    folder = tmp_path / "models" / "accumulate"
    (folder / "1").mkdir(parents=True)
    (folder / "config.pbtxt").write_text(CONFIG)
    (folder / "1" / "model.py").write_text(dedent(MODEL))
    (tmp_path / "models" / "ensemble" / "1").mkdir(parents=True)
    (tmp_path / "models" / "ensemble" / "config.pbtxt").write_text(ENSEMBLE)
    with charonia.Server(tmp_path / "models", log_error=False, log_warning=False) as server:
        yield server.model(request.param)


ENSEMBLE = """
platform: "ensemble"
max_batch_size: 2
input { name: "X" data_type: TYPE_INT32 dims: [ 1 ] }
output { name: "SUM" data_type: TYPE_INT32 dims: [ 1 ] }
ensemble_scheduling {
  step {
    model_name: "accumulate" model_version: -1
    input_map { key: "X" value: "X" } output_map { key: "SUM" value: "SUM" }
  }
}
"""


def send(sequence, value, **options):
    return int(sequence.infer(X=[[value]], timeout_s=PATIENCE_S, **options)["SUM"].item())


def test_the_first_request_starts_and_the_last_one_ends(model):
    with model.sequence(7) as sequence:
        assert [send(sequence, 1), send(sequence, 2), send(sequence, 3, end=True)] == [1, 3, 6]
        with pytest.raises(InvalidArgumentError, match="has ended"):
            send(sequence, 4)
    with model.sequence(7) as sequence:
        assert send(sequence, 10) == 10


def test_sequences_have_ids_of_their_own(model):
    with model.sequence() as one, model.sequence() as other:
        assert one.id != other.id
        assert [send(one, 1), send(other, 100), send(one, 1), send(other, 100)] == [1, 100, 2, 200]


def test_a_sequence_that_is_left_frees_its_slot(model):
    """There are two slots, and nothing is ever idle for long enough."""
    for number in range(1, 6):
        with model.sequence(number) as sequence:
            assert send(sequence, number) == number


def test_a_sequence_that_fails_frees_its_slot(model):
    for number in range(1, 6):
        with pytest.raises(InvalidArgumentError, match="negative"), model.sequence(number) as sequence:
            send(sequence, -number)


def test_what_was_left_goes_on_for_nobody(model):
    with model.sequence(5) as sequence:
        send(sequence, 1)
    with pytest.raises(InvalidArgumentError, match=r"sequence 5 .* has ended: make another"):
        send(sequence, 1)
    with pytest.raises(InvalidArgumentError, match="START"):
        model.infer(X=[[1]], sequence_id=5)


def test_a_first_request_that_failed_has_started_nothing(model):
    with model.sequence(3) as sequence:
        for wrong in ({"X": np.zeros((1, 1), np.float32)}, {"X": [["no number"]]}, {"X": [[-1]]}):
            with pytest.raises(CharoniaError):
                sequence.infer(wrong)
        assert [send(sequence, 1), send(sequence, 1)] == [1, 2]


def test_a_last_request_that_failed_has_ended_nothing(model):
    for number in range(1, 6):
        with model.sequence(number) as sequence:
            send(sequence, 1)
            with pytest.raises(CharoniaError):
                sequence.infer(X=np.zeros((1, 1), np.float32), end=True)
            assert send(sequence, 1) == 2


def test_several_requests_under_way_keep_their_order(model):
    with model.sequence() as sequence:
        futures = [sequence.submit({"X": [[1]]}, end=number == 9) for number in range(10)]
        assert [int(each.result(PATIENCE_S).outputs["SUM"].numpy().item()) for each in futures] == [*range(1, 11)]


def test_async(model):
    async def one(first):
        with model.sequence() as sequence:
            return [int((await sequence.infer_async(X=[[first]]))["SUM"].item()) for _ in range(3)]

    async def both():
        return await asyncio.gather(one(1), one(10))

    assert asyncio.run(both()) == [[1, 2, 3], [10, 20, 30]]


def test_streams(model):
    with model.sequence() as sequence:
        (first,) = sequence.stream(X=[[1]])
        (second,) = sequence.stream({"X": [[1]]}, end=True, timeout_s=PATIENCE_S)
    assert (first["SUM"].item(), second["SUM"].item()) == (1, 2)


def test_cancel(model):
    sequence = model.sequence(9)
    send(sequence, 1)
    sequence.cancel()
    with pytest.raises(InvalidArgumentError, match="has ended"):
        send(sequence, 1)
    sequence.cancel()


def test_flags_by_hand(model):
    answers = [
        model.infer(X=[[1]], sequence_id=4, sequence_start=True),
        model.infer(X=[[1]], sequence_id=4),
        model.infer(X=[[1]], sequence_id=4, sequence_end=True),
    ]
    assert [each["SUM"].item() for each in answers] == [1, 2, 3]


def test_options_go_to_the_model(model):
    with model.sequence() as sequence:
        answer = sequence.infer({"X": [[1]]}, request_id="q", parameters={"a": 1}, outputs=["SUM"], priority=0)
        assert answer.request_id == "q"
        assert answer.model_version == 1


def test_a_sequence_never_used_disturbs_nobody(model):
    with model.sequence(6) as first:
        send(first, 1)
        with model.sequence(6):
            pass
        assert send(first, 1) == 2


@pytest.mark.parametrize("given", [np.int64(5), np.uint8(5), True, -1, 2**64 - 1, np.str_("five"), "five"])
def test_ids_may_be_of_numpy(model, given):
    if isinstance(given, str):
        with pytest.raises(InvalidArgumentError, match="is a text"):
            model.sequence(given).infer(X=[[1]])
        return
    with model.sequence(given) as sequence:
        assert sequence.id == int(given) % 2**64
        assert [sequence.infer(X=[[n]])["SUM"].item() for n in (1, 2)] == [1, 3]


@pytest.mark.parametrize("given", [1.5, b"five", 2**64, -(2**63) - 1, "\ud800", object()])
def test_what_can_be_no_id_is_refused(model, given):
    with pytest.raises(InvalidArgumentError, match="sequence_id must be"):
        model.sequence(given)
    with pytest.raises(InvalidArgumentError, match="sequence_id must be"):
        model.infer(X=[[1]], sequence_id=given, sequence_start=True)


def test_a_text_that_is_too_long_for_an_id_is_refused(model):
    with pytest.raises(CharoniaError, match="cannot be longer than 128 characters, got 129 bytes"):
        model.sequence("x" * 129).infer(X=[[1]])


@pytest.mark.parametrize("timeout_s", [1e10, float("inf")])
def test_any_time_out_can_be_waited_for(model, timeout_s):
    with model.sequence() as sequence:
        assert sequence.infer(X=[[1]], timeout_s=timeout_s)["SUM"].item() == 1
        assert [each["SUM"].item() for each in sequence.stream(X=[[2]], end=True, timeout_s=timeout_s)] == [3]


def test_a_time_out_says_what_it_waited_for(model):
    with pytest.raises(TimeoutError, match="gave no response within 0 s"):
        model.infer(X=[[1]], sequence_id=1, sequence_start=True, timeout_s=0)
