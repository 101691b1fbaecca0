import pytest

from charonia.config.metric_control import FIRST_RESPONSE
from charonia.config.schema import ModelConfig
from charonia.core.errors import QueueFullError
from charonia.core.request import Reply
from charonia.observe.first_response import DEFAULT_BOUNDS_MS, FirstResponses, bounds_of
from charonia.observe.statistics import ModelStatistics
from charonia.testing.requests import KeptReplies, make_request

MS = 1_000_000


@pytest.fixture
def request_():
    return make_request(KeptReplies(), arrival_ns=0)


def test_only_the_first_of_several_responses_counts(request_):
    first = FirstResponses([10, 100])
    first.record([Reply(request_, final=False)], 10 * MS)
    first.record([Reply(request_, final=False)], 50 * MS)
    first.record([Reply(request_)], 500 * MS)
    assert first.counts == [1, 0, 0]
    assert first.sum_ns == 10 * MS
    other = make_request(KeptReplies(), arrival_ns=0)
    first.record([Reply(request_), Reply(other)], 11 * MS)  # a request that is used again is another one
    assert first.counts == [1, 2, 0]


def test_nothing_is_kept_of_requests_that_are_over(request_):
    first = FirstResponses()
    first.record([Reply(request_, final=False)], 1)
    first.record([Reply(request_)], 2)
    assert len(first._begun) == 0
    dropped = make_request(KeptReplies(), arrival_ns=0)
    first.record([Reply(dropped, final=False)], 1)
    del dropped
    assert len(first._begun) == 0


def test_a_request_that_waited_in_vain_counts_and_one_that_was_not_accepted_does_not(request_):
    statistics = ModelStatistics(first_responses=FirstResponses())
    statistics.record_failure(request_, QueueFullError.failure_reason, 700 * MS)
    assert sum(statistics.first_responses.counts) == 0
    request_.queue_start_ns = 1
    statistics.record_failure(request_, QueueFullError.failure_reason, 700 * MS)
    assert statistics.first_responses.counts == [0, 0, 1, 0, 0]


def test_buckets_of_the_configuration():
    config = ModelConfig()
    assert bounds_of(config) == DEFAULT_BOUNDS_MS
    other = config.model_metrics.metric_control.add()
    other.metric_identifier.family = "other"
    other.histogram_options.buckets.extend([1, 2])
    assert bounds_of(config) == DEFAULT_BOUNDS_MS
    own = config.model_metrics.metric_control.add()
    own.metric_identifier.family = FIRST_RESPONSE
    own.histogram_options.buckets.extend([-1, 0.0, 1, 2.5])
    assert bounds_of(config) == (-1, 0, 1, 2.5)
