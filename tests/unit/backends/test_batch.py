"""A batch in execution: every request is answered once, whatever the backend does."""

import numpy as np
import pytest

from charonia.backends.arranging import OutputArranger
from charonia.backends.batch import ExecutingBatch
from charonia.config.io import OutputSpec
from charonia.core.errors import BackendError, InvalidArgumentError, UnavailableError
from charonia.core.log import SilentLog
from charonia.core.request import refuse
from charonia.core.tensor import Tensor
from charonia.observe.first_response import FirstResponses
from charonia.observe.statistics import ModelStatistics
from charonia.testing.clock import ManualClock
from charonia.testing.log import kept_log
from charonia.testing.requests import KeptReplies, make_request

RESHAPED = OutputSpec("O", "FP32", (-1, 1), reshape=(-1,))


def executing(count=2, output=RESHAPED):
    channel, statistics = KeptReplies(), ModelStatistics()
    requests = [make_request(channel) for _ in range(count)]
    return ExecutingBatch(requests, OutputArranger([output], True), statistics, ManualClock()), channel, statistics


def output(shape):
    return [Tensor.from_numpy("O", np.zeros(shape, np.float32))]


def test_outputs_that_cannot_be_arranged_leave_the_request_to_be_failed():
    batch, channel, _ = executing()
    first, second = batch.requests
    batch.respond(first, output((1, 3)))
    with pytest.raises(IndexError):
        batch.respond(second, output((1,)))
    batch.close(BackendError("a wrong output"), "m")
    assert channel.of(first).outputs[0].shape == (1, 3, 1)
    assert channel.error_of(second) == "a wrong output"


def test_a_request_that_the_backend_forgot_is_failed():
    batch, channel, statistics = executing(1)
    batch.close(None, "m")
    assert "without answering" in channel.error_of(batch.requests[0])
    assert statistics.fail.count == 1


class Broken(KeptReplies):
    """A channel that does what none may."""

    def send(self, replies):
        raise OSError("no way out")


@pytest.mark.parametrize("broken", [(0,), (0, 2), (0, 1, 2)])
def test_a_channel_that_raises_keeps_nothing_from_the_others(broken):
    channels = [Broken() if index in broken else KeptReplies() for index in range(3)]
    requests = [make_request(channel) for channel in channels]
    log, lines = kept_log()
    batch = ExecutingBatch(requests, OutputArranger([RESHAPED], True), ModelStatistics(), ManualClock(), log)
    for request in requests:
        batch.respond(request, output((1, 3)))
    batch.close(None, "m")
    assert [len(channel.replies) for channel in channels] == [int(index not in broken) for index in range(3)]
    assert lines.text.count("OSError('no way out')") == len(broken)


def test_the_only_channel_of_a_batch_that_raises_is_told_to_the_log():
    channel = Broken()
    log, lines = kept_log()
    requests = [make_request(channel) for _ in range(2)]
    batch = ExecutingBatch(requests, OutputArranger([RESHAPED], True), None, ManualClock(), log)
    batch.close(BackendError("broken"), "m")
    assert "2 replies" in lines.text


def test_a_second_answer_is_ignored():
    batch, channel, statistics = executing(1)
    (request,) = batch.requests
    batch.respond(request, output((1, 3)))
    batch.respond(request, output((1, 3)))
    batch.fail(request, BackendError("late"))
    batch.close(None, "m")
    assert channel.of(request).error is None
    assert (statistics.success.count, statistics.fail.count) == (1, 0)


class Turn:
    """Notes what had been sent when it was released."""

    state = None

    def __init__(self, channel):
        self._channel = channel
        self.sent = []

    def release(self):
        self.sent.append(len(self._channel.replies))


@pytest.mark.parametrize("how", ["respond", "fail", "end"])
def test_the_next_of_a_sequence_may_go_once_the_answer_has_been_sent(how):
    batch, channel, _ = executing(1)
    (request,) = batch.requests
    request.turn = turn = Turn(channel)
    batch.respond(request, output((1, 3)), final=False)
    {
        "respond": lambda: batch.respond(request, output((1, 3))),
        "fail": lambda: batch.fail(request, BackendError("no")),
        "end": lambda: batch.end(request),
    }[how]()
    assert turn.sent == []
    batch.close(None, "m")
    batch.flush()
    assert turn.sent == [2]


def test_nothing_follows_an_answer_that_was_given_elsewhere():
    batch, channel, _ = executing(1)
    (request,) = batch.requests
    refuse(request, UnavailableError("it is over"))
    batch.respond(request, output((1, 3)), final=False)
    batch.fail(request, BackendError("late"), final=False)
    batch.close(None, "m")
    assert len(channel.replies) == 1


def test_a_batch_that_is_held_is_left_to_the_backend():
    batch, channel, _ = executing(1)
    (request,) = batch.requests
    batch.hold()
    batch.close(None, "m")
    assert channel.replies == []
    batch.respond(request, output((1, 3)))
    batch.flush()
    batch.ready_for_next()
    batch.wait_ready()
    assert channel.of(request).error is None


def test_each_failure_of_the_model_is_logged_once_and_refusals_are_not():
    errors = []

    class Log(SilentLog):
        def error(self, message):
            errors.append(message)

    channel = KeptReplies()
    requests = [make_request(channel) for _ in range(4)]
    batch = ExecutingBatch(requests, OutputArranger([RESHAPED], True), None, ManualClock(), Log())
    for request, error in zip(
        requests, [BackendError("boom"), BackendError("boom"), InvalidArgumentError("bad X"), None], strict=True
    ):
        batch.respond(request, output((1, 3))) if error is None else batch.fail(request, error)
    batch.flush()
    assert errors == ["model 'm' version : boom"]


def test_the_first_response_of_several_is_observed():
    statistics = ModelStatistics(first_responses=FirstResponses([1000]))
    clock = ManualClock()
    request = make_request(KeptReplies(), arrival_ns=clock.now_ns())
    batch = ExecutingBatch([request], OutputArranger([RESHAPED], True), statistics, clock)
    for final in (False, False, True):
        clock.advance(s=1)
        batch.respond(request, output((1, 3)), final=final)
        batch.flush()
    assert statistics.first_responses.counts == [1, 0]
    assert statistics.first_responses.sum_ns == 1000_000_000
    assert (statistics.success.count, statistics.execution_count) == (1, 1)


def test_padding_is_executed_and_nobody_hears_of_it():
    batch, channel, statistics = executing(2)
    padding, real = batch.requests
    padding.is_padding = True
    batch.respond(padding, output((1, 3)))
    batch.respond(real, output((1, 3)))
    batch.close(None, "m")
    assert [reply.request for reply in channel.replies] == [real]
    assert (statistics.success.count, statistics.inference_count, statistics.execution_count) == (1, 1, 1)
    assert list(statistics.batches) == [2]  # rows that were executed, as Triton counts


def test_padding_that_fails_or_is_forgotten_is_no_failure():
    batch, channel, statistics = executing(2)
    for request in batch.requests:
        request.is_padding = True
    batch.fail(batch.requests[0], BackendError("no"))
    batch.close(None, "m")
    assert channel.replies == []
    assert statistics.fail.count == 0
