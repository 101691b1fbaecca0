"""Counters by response of decoupled models."""

import pytest

from charonia.config.schema import ModelConfig
from charonia.core.errors import BackendError, CancelledError
from charonia.core.request import Reply
from charonia.observe.metrics_config import MetricsOptions
from charonia.observe.responses import RESPONSE_COUNTERS, ResponseStatistics
from charonia.observe.statistics import ModelStatistics, new_statistics
from charonia.testing.requests import KeptReplies, make_request


@pytest.fixture
def request_():
    return make_request(KeptReplies(), arrival_ns=0)


def counted(statistics, index):
    """{name: (count, ns)} of what has been counted."""
    durations = {name: getattr(statistics.by_index[index], name) for name in RESPONSE_COUNTERS}
    return {name: (each.count, each.ns) for name, each in durations.items() if each.count}


def test_each_response_took_the_time_since_the_one_before(request_):
    statistics = ResponseStatistics()
    statistics.record([Reply(request_, final=False)], 100, 110)
    statistics.record([Reply(request_, error=BackendError("x"), final=False)], 100, 130)
    statistics.record([Reply(request_, has_response=False)], 100, 170)
    assert counted(statistics, 0) == {"compute_infer": (1, 10), "compute_output": (1, 0), "success": (1, 10)}
    assert counted(statistics, 1) == {"compute_infer": (1, 20), "compute_output": (1, 0), "fail": (1, 20)}
    assert counted(statistics, 2) == {"compute_infer": (1, 40), "empty_response": (1, 40)}


def test_a_cancelled_response_counts_by_itself(request_):
    statistics = ResponseStatistics()
    statistics.record([Reply(request_, error=CancelledError("x"))], 100, 110)
    assert counted(statistics, 0) == {"cancel": (1, 10)}


def test_requests_add_up_and_nothing_is_kept_of_them():
    statistics = ResponseStatistics()
    for _ in range(3):
        request = make_request(KeptReplies(), arrival_ns=0)
        statistics.record([Reply(request, final=False), Reply(request)], 0, 5)
    assert counted(statistics, 0)["success"] == (3, 15)
    assert counted(statistics, 1)["success"] == (3, 0)
    statistics.record([Reply(make_request(KeptReplies(), arrival_ns=0), final=False)], 0, 5)
    assert len(statistics._begun) == 0


def test_an_endless_stream_does_not_grow_the_counters(request_):
    statistics = ResponseStatistics()
    for now in range(1500):
        statistics.record([Reply(request_, final=False)], 0, now)
    assert len(statistics.by_index) == 1000


def test_only_decoupled_models_have_them_and_they_are_merged(request_):
    config = ModelConfig(name="m")
    assert new_statistics(MetricsOptions(), config).responses is None
    config.model_transaction_policy.decoupled = True
    one, both = new_statistics(MetricsOptions(), config), ModelStatistics()
    one.record_streamed(0, 7, [Reply(request_)])
    both.add(one)
    both.add(one)
    assert counted(both.responses, 0)["success"] == (2, 14)
