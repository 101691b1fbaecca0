"""An isolated model's process is killed: who waits is told at once, and the model comes back."""

import os
import signal

import pytest

from charonia.core.errors import CharoniaError
from tests.every_door.raw import RawHttp, one_input
from tests.every_door.served import value_of
from tests.every_door.watched import WatchedReadiness
from tests.models.gated import PATIENCE_S


@pytest.fixture
def isolated(gated):
    def make(config="max_batch_size: 1"):
        return gated(config, form="isolated")

    return make


def kill(said):
    os.kill(said["pid"], signal.SIGKILL)


def test_who_is_inside_is_told_the_signal_and_who_waits_is_answered_by_the_next_process(isolated):
    served = isolated()
    inside, waiting = served.send(1), served.send(2)
    first = served.gate.next_entered()
    kill(first)
    with pytest.raises(CharoniaError, match="SIGKILL") as failed:
        inside.result(PATIENCE_S)
    assert failed.value.code.name == "INTERNAL"
    assert "'m'" in str(failed.value) or "m_0" in str(failed.value)
    second = served.gate.next_entered()
    assert second["values"] == [2]
    assert second["pid"] != first["pid"]
    served.gate.open()
    assert value_of(waiting) == 2
    assert served.model.ready
    assert served.server.ready
    assert served.server.live


def test_all_of_a_batch_are_told(isolated):
    served = isolated(
        "max_batch_size: 4 dynamic_batching { preferred_batch_size: [3] max_queue_delay_microseconds: 3600000000 }"
    )
    futures = [served.send(value) for value in (1, 2, 3)]
    kill(served.gate.next_entered())
    for future in futures:
        with pytest.raises(CharoniaError, match="SIGKILL"):
            future.result(PATIENCE_S)
    assert served.model.statistics().inference["fail"].count == 3


def test_the_client_gets_500_and_the_next_request_is_answered(isolated, clients):
    served = isolated()
    http = RawHttp(served.server)
    told = WatchedReadiness(served.server, "m")
    body = one_input([4.0], name="IN", shape=[1, 1])
    asked = clients.submit(http.infer, "m", body)
    kill(served.gate.next_entered())
    answer = asked.result(PATIENCE_S)
    assert answer.status_code == 500
    assert "SIGKILL" in answer.json()["error"]
    served.gate.open()
    assert http.infer("m", body).json()["outputs"][0]["data"] == [4.0]
    told.wait(is_ready=True)
    assert http.client.get("/v2/models/m/ready").status_code == 200
    http.close()


def test_the_model_is_ready_while_another_instance_lives_and_not_when_none_does(isolated):
    served = isolated("max_batch_size: 1 instance_group [ { count: 2 } ]")
    http = RawHttp(served.server)
    told = WatchedReadiness(served.server, "m")
    futures = [served.send(1), served.send(2)]
    inside = [served.gate.next_entered(), served.gate.next_entered()]
    served.gate.shut_start()
    kill(inside[0])
    with pytest.raises(CharoniaError):
        futures[inside[0]["values"][0] - 1].result(PATIENCE_S)
    assert served.model.ready
    assert http.client.get("/v2/models/m/ready").status_code == 200
    kill(inside[1])
    with pytest.raises(CharoniaError):
        futures[inside[1]["values"][0] - 1].result(PATIENCE_S)
    told.wait(is_ready=False)
    assert not served.model.ready
    assert http.client.get("/v2/models/m/ready").status_code == 400
    assert http.client.get("/v2/health/ready").status_code == 400
    assert http.client.get("/v2/health/live").status_code == 200
    waiting = served.send(3)
    served.gate.open_for_good()
    assert value_of(waiting) == 3
    told.wait(is_ready=True)
    assert http.client.get("/v2/models/m/ready").status_code == 200
    assert http.client.get("/v2/health/ready").status_code == 200
    http.close()
