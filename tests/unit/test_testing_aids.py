"""Environment variables by which test suites steer a server."""

import pytest

from charonia.core.errors import InvalidArgumentError
from charonia.scheduling.build import SchedulingAids
from charonia.testing_aids import TestingAids


def test_nothing_is_steered_without_them() -> None:
    assert TestingAids.of({}) == TestingAids(SchedulingAids(0, 0), grpc_answer_delay_s=0)


def test_each_has_its_variable() -> None:
    environment = {
        "TRITONSERVER_DELAY_SCHEDULER": "8",
        "TRITONSERVER_BACKLOG_DELAY_SCHEDULER": "3",
        "TRITONSERVER_SERVER_DELAY_GRPC_RESPONSE_SEC": "2",
    }
    assert TestingAids.of(environment) == TestingAids(SchedulingAids(8, 3), grpc_answer_delay_s=2)


def test_what_is_no_number_is_named() -> None:
    with pytest.raises(InvalidArgumentError, match=r"TRITONSERVER_SERVER_DELAY_GRPC_RESPONSE_SEC .* got 'soon'"):
        TestingAids.of({"TRITONSERVER_SERVER_DELAY_GRPC_RESPONSE_SEC": "soon"})
