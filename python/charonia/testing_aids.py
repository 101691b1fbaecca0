"""Environment variables by which test suites written for Triton steer a server. Read once, at start.

| variable | effect |
| --- | --- |
| `TRITONSERVER_DELAY_SCHEDULER=n` | dynamic batchers and sequences start only when n requests are queued |
| `TRITONSERVER_BACKLOG_DELAY_SCHEDULER=n` | `direct` sequences wait until n more are in the backlog |
| `TRITONSERVER_SERVER_DELAY_GRPC_RESPONSE_SEC=s` | calls over gRPC that are no inference are answered s seconds late |
"""

from collections.abc import Mapping
from dataclasses import dataclass

from charonia.core.errors import InvalidArgumentError
from charonia.core.text import whole_number
from charonia.scheduling.build import NO_AIDS, SchedulingAids


@dataclass(frozen=True, slots=True)
class TestingAids:
    """
    Attributes:
        scheduling: what batchers wait for before their first batch.
        grpc_answer_delay_s: how late the unary calls over gRPC are answered that are no inference.
    """

    __test__ = False  # not a test class, whatever its name looks like

    scheduling: SchedulingAids = NO_AIDS
    grpc_answer_delay_s: int = 0

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> "TestingAids":
        """Raises InvalidArgumentError for a value that is no whole number."""
        return cls(
            SchedulingAids(
                _whole_number(environment, "TRITONSERVER_DELAY_SCHEDULER"),
                _whole_number(environment, "TRITONSERVER_BACKLOG_DELAY_SCHEDULER"),
            ),
            _whole_number(environment, "TRITONSERVER_SERVER_DELAY_GRPC_RESPONSE_SEC"),
        )


def _whole_number(environment: Mapping[str, str], name: str) -> int:
    text = environment.get(name, "") or "0"
    value = whole_number(text)
    if value is None or value < 0:
        raise InvalidArgumentError(f"environment variable {name} must be a whole number, got '{text}'")
    return value
