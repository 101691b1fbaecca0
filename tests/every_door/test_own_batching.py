"""Strategies of a user's own and latency targets: whatever decides on batches, every door gets its answers."""

import numpy as np
import pytest

from tests.every_door.doors import DOORS
from tests.every_door.scraped import exported
from tests.every_door.served import ask
from tests.models.gated import PATIENCE_S

PARAMETER = 'parameters {{ key: "{}" value {{ string_value: "{}" }} }}\n'
STRATEGY = "max_batch_size: 8 dynamic_batching { }\n" + PARAMETER.format("batching_strategy", "batching.py")
CODE = """
class BatchingStrategy:
    def __init__(self, model):
        pass

    def start_batch(self):
        return []

    def may_join(self, batch, request):
        batch.append(request.inputs["IN"].byte_size)
        BODY

    def finish_batch(self, batch):
        pass
"""


@pytest.fixture
def asked(gated, clients, tmp_path, monkeypatch):
    """Asks through every door at once, of a server that batches nothing before all are there; gives the server."""

    def run(config, body=None, **options):
        monkeypatch.setenv("TRITONSERVER_DELAY_SCHEDULER", str(len(DOORS)))
        if body is not None:
            folder = tmp_path / "models" / "m"
            folder.mkdir(parents=True)
            (folder / "batching.py").write_text(CODE.replace("BODY", body))
        served = gated(config, **options)
        served.gate.open_for_good()
        sent = [np.full((1, 3), value, np.float32) for value in range(len(DOORS))]
        futures = [
            clients.submit(ask, name, served.server, "m", {"IN": each}) for name, each in zip(DOORS, sent, strict=True)
        ]
        for each, future in zip(sent, futures, strict=True):
            np.testing.assert_array_equal(future.result(PATIENCE_S)["OUT"], each)
        return served

    return run


def test_requests_of_every_door_are_asked_about(asked):
    """Three floats a request, and room for two of them in a batch."""
    served = asked(STRATEGY, "return sum(batch) <= 24")
    whole, rest = divmod(len(DOORS), 2)
    assert served.batch_statistics() == {2: whole} | ({1: rest} if rest else {})


@pytest.mark.parametrize("body", ["raise RuntimeError('of the user')", "return 1 / 0"])
def test_a_strategy_that_fails_harms_no_request(asked, capfd, body):
    served = asked(STRATEGY, body)
    assert served.batch_statistics() == {1: len(DOORS)}
    assert capfd.readouterr().err.count("may_join of its batching strategy failed") == 1


def test_what_the_strategy_keeps_apart_is_still_bounded_by_the_batcher(asked):
    served = asked(STRATEGY.replace("8", "4"), "return True")
    assert max(served.batch_statistics()) == 4


def test_a_latency_target_serves_every_door(asked):
    served = asked("max_batch_size: 8 dynamic_batching { }\n" + PARAMETER.format("latency_target_p95_ms", "50"))
    assert served.model.statistics().inference_count == len(DOORS)
    (delay,) = exported(served.server)["charonia_batch_delay_us"]
    assert (delay.labels["model"], delay.value) == ("m", 0)


def test_a_latency_target_of_a_model_that_can_batch_nothing_is_refused(asked):
    with pytest.raises(Exception, match="latency_target_p95_ms is a target for dynamic batching"):
        asked("max_batch_size: 8\n" + PARAMETER.format("latency_target_p95_ms", "50"))
