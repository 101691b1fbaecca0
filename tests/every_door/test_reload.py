"""A model that is loaded anew, updated or unloaded while every door asks it: no request is lost, there is no gap.

The same of a model that is a step of the ensemble that is asked.
"""

import threading

import numpy as np
import pytest

from charonia.api import Server
from charonia.core.errors import InvalidArgumentError
from tests.every_door.doors import DOORS, RefusedError, open_door
from tests.models.gated import PATIENCE_S
from tests.models.plus import write_plus
from tests.models.repository import write_config

CONFIG = """
    max_batch_size: 4
    dynamic_batching {{ }}
    input [ {{ name: "IN" data_type: TYPE_FP32 dims: [ 1 ] }} ]
    output [ {{ name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] }} ]
    instance_group [ {{ count: {count} kind: KIND_CPU }} ]
    parameters {{ key: "execution" value {{ string_value: "inline" }} }}
"""
TWICE = """
    platform: "ensemble"
    max_batch_size: 4
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ 1 ] } ]
    output [ { name: "OUT" data_type: TYPE_FP32 dims: [ 1 ] } ]
    ensemble_scheduling {
      step { model_name: "m" input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "middle" } }
      step { model_name: "m" input_map { key: "IN" value: "middle" } output_map { key: "OUT" value: "OUT" } }
    }
"""
ROUNDS = 8


def write(repository, plus):
    write_plus(repository, CONFIG.format(count=2), plus)


def write_config_only(repository, count):
    (repository / "m" / "config.pbtxt").write_text('backend: "python"\n' + CONFIG.format(count=count))


class Asking:
    """A client of one door that asks without a pause, and what came of it."""

    def __init__(self, door_name, server, model="m"):
        self.answers, self.errors = [], []
        self._model = model
        self._door_name, self._server = door_name, server
        self._stop = threading.Event()
        self._asked = threading.Condition()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        door = open_door(self._door_name, self._server)
        while not self._stop.is_set():
            try:
                value = door.infer(self._model, {"IN": np.full((1, 1), 100, np.float32)})["OUT"][0, 0]
                self.answers.append(int(value) - 100)
            except RefusedError as error:
                self.errors.append((error.code, str(error)))
            with self._asked:
                self._asked.notify_all()
        door.close()

    def wait_for_one_more(self):
        """Until a request that began after this call is answered."""
        with self._asked:
            done = len(self.answers) + len(self.errors)
            assert self._asked.wait_for(lambda: len(self.answers) + len(self.errors) >= done + 2, PATIENCE_S)

    def stop(self):
        self._stop.set()
        self._thread.join(PATIENCE_S)


@pytest.fixture
def served(tmp_path):
    repository = tmp_path / "models"
    write(repository, 0)
    with Server(repository, http_port=0, grpc_port=0, model_control_mode="explicit", load_model=["m"]) as server:
        yield server, repository


@pytest.fixture
def asking(served):
    clients = [Asking(name, served[0]) for name in DOORS for _ in range(2)]
    yield clients
    for client in clients:
        client.stop()


def test_no_request_is_lost_while_the_model_is_loaded_anew(served, asking):
    server, repository = served
    for plus in range(1, ROUNDS):
        write(repository, plus)
        server.load_model("m")
        for client in asking:
            client.wait_for_one_more()
    for client in asking:
        client.stop()
        assert client.errors == []
        assert client.answers == sorted(client.answers)  # never an old version after a new one has answered
        assert client.answers[-1] == ROUNDS - 1


def test_no_request_is_lost_while_instances_come_and_go(served, asking):
    server, repository = served
    before = server.model("m").loaded
    for count in (1, 4, 2, 3, 1):
        write_config_only(repository, count)
        server.load_model("m")
        for client in asking:
            client.wait_for_one_more()
    assert server.model("m").loaded is before
    for client in asking:
        client.stop()
        assert client.errors == []
        assert set(client.answers) == {0}


def test_no_request_is_lost_while_a_load_fails(served, asking):
    server, _ = served
    for _ in range(3):
        with pytest.raises(InvalidArgumentError, match="load failed for model 'm'"):
            server.load_model("m", config='{"backend": "python", "max_batch_size": -3}')
        for client in asking:
            client.wait_for_one_more()
    for client in asking:
        client.stop()
        assert client.errors == []


def test_statistics_count_every_request_of_a_version_that_stays(served, asking):
    server, repository = served
    for count in (1, 3, 2):
        write_config_only(repository, count)
        server.load_model("m")
        for client in asking:
            client.wait_for_one_more()
    for client in asking:
        client.stop()
    statistics = server.model("m").statistics()
    assert statistics.inference["success"].count == sum(len(client.answers) for client in asking)


def test_an_unloaded_model_is_told_and_can_be_loaded_again(served, asking):
    server, _ = served
    for _ in range(3):
        server.unload_model("m")
        for client in asking:
            client.wait_for_one_more()
        server.load_model("m")
        for client in asking:
            client.wait_for_one_more()
    for client in asking:
        client.stop()
        assert {code for code, _ in client.errors} <= {"NOT_FOUND", "UNAVAILABLE"}
        assert client.errors
        assert client.answers


@pytest.fixture
def twice(served):
    """The clients of an ensemble that runs the model two times, one after the other."""
    server, repository = served
    (write_config(repository, "twice", TWICE) / "1").mkdir()
    server.load_model("twice")
    clients = [Asking(name, server, "twice") for name in DOORS for _ in range(2)]
    yield clients
    for client in clients:
        client.stop()


def test_no_request_of_an_ensemble_is_lost_while_its_step_is_loaded_anew(served, twice):
    server, repository = served
    before = server.model("twice").loaded
    for plus in range(1, ROUNDS):
        write(repository, plus)
        server.load_model("m")
        for client in twice:
            client.wait_for_one_more()
    assert server.model("twice").loaded is before
    for client in twice:
        client.stop()
        assert client.errors == []
        assert client.answers == sorted(client.answers)  # the two runs of one request may be of two versions
        assert client.answers[-1] == 2 * (ROUNDS - 1)


@pytest.mark.parametrize(("name", "dependents"), [("twice", True), ("m", False)])
def test_an_ensemble_that_goes_with_its_step_answers_what_it_accepted_and_comes_back(served, twice, name, dependents):
    """What it accepted never fails for its step's sake: errors are those of the ensemble itself."""
    server, _ = served
    server.unload_model("m")  # which was asked for by name at the start
    server.load_model("twice")
    for _ in range(3):
        server.unload_model(name, unload_dependents=dependents)
        for client in twice:
            client.wait_for_one_more()
        server.load_model("twice")
        for client in twice:
            client.wait_for_one_more()
    for client in twice:
        client.stop()
        assert client.answers
        for code, text in client.errors:
            assert code in {"NOT_FOUND", "UNAVAILABLE"}
            assert "'twice'" in text
            assert "step" not in text
