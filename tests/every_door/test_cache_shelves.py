"""Cached answers that the front end gives by itself: to whom they belong, while nothing has changed, all counted.

The first request is executed, the second is answered by the cache's stage, which hands the answer to the front end;
from the third on the stage sees nothing of it.
"""

import json
import time
from itertools import count
from textwrap import dedent

import numpy as np
import pytest
import requests
import tritonclient.grpc as grpcclient

from charonia.api import Server
from charonia.cache.stage import CacheStage
from charonia.core.errors import CharoniaError
from charonia.frontend.doors import Doors
from tests.every_door.doors import RefusedError, open_door
from tests.every_door.scraped import exported
from tests.models.plus import PLUS, write_plus
from tests.models.repository import write_config

NETWORK_DOORS = ("http-json", "http-binary", "grpc")
PATIENCE_S = 30
CACHE = {"local": {"size": str(1 << 20)}}
PORTS = {"http_port": 0, "grpc_port": 0, "metrics_port": 0}
CONFIG = """
    max_batch_size: 4
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
    output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] } ]
    parameters { key: "execution" value { string_value: "inline" } }
    response_cache { enable: true }
"""
WHOLE = """
    platform: "ensemble"
    max_batch_size: 4
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
    output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] } ]
    response_cache { enable: true }
    ensemble_scheduling {
      step { model_name: "m" input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" } }
    }
"""


JSON_CONFIG = {
    "backend": "python",
    "max_batch_size": 4,
    "response_cache": {"enable": True},
    "parameters": {"execution": {"string_value": "inline"}},
    "input": [{"name": "IN", "data_type": "TYPE_FP32", "dims": [-1]}],
    "output": [{"name": "OUT", "data_type": "TYPE_FP32", "dims": [-1]}],
}


@pytest.fixture
def stage_answers(monkeypatch):
    """How often a stage answered."""
    answers = []
    original = CacheStage._answer

    def answer(self, *args):
        answers.append(args)
        original(self, *args)

    monkeypatch.setattr(CacheStage, "_answer", answer)
    return answers


@pytest.fixture
def serve(tmp_path):
    servers = []

    def start(**options):
        write_plus(tmp_path, CONFIG, 1)
        (write_config(tmp_path, "e", WHOLE) / "1").mkdir()
        options = {"model_control_mode": "explicit", "load_model": ["*"], "cache_config": CACHE, **PORTS, **options}
        servers.append(Server(tmp_path, **options).start())
        return servers[-1]

    yield start
    for server in servers:
        server.stop()


def metric(server, name, **labels):
    """The value of the only such sample."""
    (value,) = [sample.value for sample in exported(server)[name] if labels.items() <= sample.labels.items()]
    return value


def ask(server, door, value=1.0, model="m", **options):
    opened = open_door(door, server)
    try:
        return opened.infer(model, {"IN": np.array([[value, -value]], np.float32)}, **options)
    finally:
        opened.close()


def values(server, door, count=3, **options):
    return {ask(server, door, **options)["OUT"].ravel()[0].item() for _ in range(count)}


@pytest.mark.parametrize("model", ["m", "e"])
@pytest.mark.parametrize("door", NETWORK_DOORS)
def test_from_the_third_on_the_stage_is_not_asked(serve, stage_answers, door, model):
    server = serve()
    answers = [ask(server, door, model=model, id=f"id {number}") for number in range(5)]
    assert [answer.id for answer in answers] == [f"id {number}" for number in range(5)]
    for answer in answers:
        np.testing.assert_array_equal(answer["OUT"], np.array([[2, 0]], np.float32))
        assert answer["OUT"].dtype == np.float32
    assert len([args for args in stage_answers if args[0].model_name == model]) == 1


def test_one_protocol_gives_what_another_has_asked_for(serve, stage_answers):
    server = serve()
    for door in NETWORK_DOORS:
        assert values(server, door) == {2}
    # The real clients ask alike; each door that asks in another form costs one more answer of the stage.
    assert 1 <= len(stage_answers) <= len(NETWORK_DOORS)


@pytest.mark.parametrize("door", NETWORK_DOORS)
def test_other_values_and_other_forms_get_their_own(serve, door):
    server = serve()
    for value in (1.0, 2.0, 1.0, 2.0, 1.0, 2.0):
        assert ask(server, door, value)["OUT"].ravel().tolist() == [value + 1, 1 - value]
    assert ask(server, door, outputs=["OUT"])["OUT"].ravel()[0] == 2
    assert ask(server, door, parameters={"p": 1})["OUT"].ravel()[0] == 2
    with pytest.raises((RefusedError, CharoniaError)):
        ask(server, door, outputs=["NONE"])


def test_all_is_counted(serve):
    server = serve()
    for door in NETWORK_DOORS:
        values(server, door, count=10)
    found = server.model("m").statistics()
    inference = found.inference
    assert (found.inference_count, inference["success"].count, inference["queue"].count) == (1, 30, 30)
    assert (inference["cache_hit"].count, inference["cache_miss"].count, inference["fail"].count) == (29, 1, 0)
    assert 0 < inference["cache_hit"].ns < inference["success"].ns
    assert metric(server, "nv_inference_request_success", model="m") == 30
    assert metric(server, "nv_cache_num_hits_per_model", model="m") == 29
    assert (metric(server, "nv_cache_num_hits"), metric(server, "nv_cache_num_lookups")) == (29, 30)
    assert 0 < metric(server, "nv_cache_util") < 1


@pytest.mark.parametrize("change", [Server.load_model, Server.unload_model])
def test_what_a_version_gave_is_counted_when_it_goes(serve, tmp_path, change):
    """Though nobody has looked meanwhile: the cache's own counters go on."""
    server = serve()
    assert values(server, "http-json", count=10) == {2}
    write_plus(tmp_path, CONFIG, 2)
    change(server, "m")
    give_up = time.monotonic() + PATIENCE_S  # what is replaced ends in the background
    while (hits := metric(server, "nv_cache_num_hits")) != 9:
        assert time.monotonic() < give_up, hits


def test_a_reload_ends_them_and_those_of_ensembles(serve, tmp_path):
    server = serve()
    for plus in (1, 2, 3):
        write_plus(tmp_path, CONFIG, plus)
        server.load_model("m")
        for door in NETWORK_DOORS:
            assert values(server, door) == {1 + plus}
            assert values(server, door, model="e") == {1 + plus}


def test_no_old_answer_comes_once_the_new_version_answers(serve, tmp_path, monkeypatch):
    """Each time before the front end gets to know of a change, while the engine has it already."""
    server = serve()
    for model in ("m", "e"):
        assert values(server, "grpc", model=model) == {2}
    publish, unknown, seen = Doors.publish, count(100), []

    def ask_and_publish(*args):
        for model in ("m", "e"):
            value = float(next(unknown))
            new = ask(server, "grpc", value, model=model)["OUT"].ravel()[0].item() - value
            seen.append((new, ask(server, "grpc", 1.0, model=model)["OUT"].ravel()[0].item() - 1))
        publish(*args)

    monkeypatch.setattr(Doors, "publish", ask_and_publish)
    write_plus(tmp_path, CONFIG, 2)
    server.load_model("m")
    monkeypatch.undo()
    assert set(seen) == {(1, 1), (2, 2)}
    assert values(server, "grpc") == values(server, "grpc", model="e") == {3}


def test_so_does_another_configuration(serve):
    server = serve()
    assert values(server, "grpc") == {2}
    config = dict(JSON_CONFIG)
    code = dedent(PLUS.format(plus=5)).encode()
    server.load_model("m", config=json.dumps(config), files={"1/model.py": code})
    assert values(server, "grpc") == {6}
    del config["response_cache"]
    server.load_model("m", config=json.dumps(config), files={"1/model.py": code})
    before = server.model("m").statistics().inference_count
    assert values(server, "grpc") == {6}
    assert server.model("m").statistics().inference_count == before + 3


@pytest.mark.parametrize("door", NETWORK_DOORS)
def test_a_model_that_has_become_passive_gives_none(serve, door):
    server = serve()
    assert values(server, door) == {2}
    server.load_model("m", config=json.dumps({**JSON_CONFIG, "instance_group": [{"passive": True}]}))
    with pytest.raises(RefusedError, match="passive"):
        ask(server, door)
    server.load_model("m", config=json.dumps(JSON_CONFIG))
    assert values(server, door) == {2}


@pytest.mark.parametrize("door", NETWORK_DOORS)
def test_an_unloaded_model_gives_none(serve, door):
    server = serve()
    assert values(server, door) == {2}
    server.unload_model("m")
    with pytest.raises(RefusedError):
        ask(server, door)
    server.load_model("m")
    assert values(server, door) == {2}


def http_post(server, path, **body):
    answer = requests.post(f"http://localhost:{server.ports['http']}{path}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_who_follows_requests_sees_each(serve, stage_answers, tmp_path):
    """The verbose log, and traces: from when they are switched on until they are switched off."""
    server = serve(trace_config=[f"triton,file={tmp_path / 'trace.json'}"])
    for path, on, off in (
        ("/v2/logging", {"log_verbose_level": 1}, {"log_verbose_level": 0}),
        ("/v2/trace/setting", {"trace_level": ["TIMESTAMPS"]}, {"trace_level": ["OFF"]}),
    ):
        values(server, "grpc")
        for change, seen in ((on, 3), (off, 0)):
            http_post(server, path, **change)
            stage_answers.clear()
            values(server, "grpc")
            assert len(stage_answers) == seen, (path, change)


@pytest.mark.parametrize("latencies", ["summary_latencies", "histogram_latencies"])
def test_latencies_of_each_are_counted_where_that_is_asked_for(serve, stage_answers, latencies):
    server = serve(metrics_config={latencies: "true"})
    values(server, "grpc", count=4)
    assert len(stage_answers) == 3


def test_large_answers(serve, stage_answers):
    """What takes long to look up or to write is not done on the threads that serve other connections too."""
    server = serve()
    for name, elements, by_stage in (
        ("http-binary", 100_000, 3),  # 400 KB
        ("http-binary", 10_000, 1),
        ("grpc", 20_000, 1),
    ):
        inputs = {"IN": np.arange(elements, dtype=np.float32).reshape(1, -1)}
        stage_answers.clear()
        door = open_door(name, server)
        for _ in range(4):
            np.testing.assert_array_equal(door.infer("m", inputs)["OUT"], inputs["IN"] + 1)
        door.close()
        assert len(stage_answers) == by_stage, (name, elements)


@pytest.mark.parametrize(("elements", "by_stage"), [(5_000, 3), (500, 1)])
def test_long_json(serve, stage_answers, elements, by_stage):
    server = serve()
    data = list(range(elements))
    tensor = {"name": "IN", "datatype": "FP32", "shape": [1, elements], "data": data}
    for _ in range(4):
        answer = http_post(server, "/v2/models/m/infer", inputs=[tensor])
        assert answer["outputs"][0]["data"] == [value + 1 for value in data]
    assert len(stage_answers) == by_stage


def test_on_a_stream_they_keep_their_order(serve):
    """Known and unknown answers in turns, many under way at once."""
    server = serve()
    with grpcclient.InferenceServerClient(f"localhost:{server.ports['grpc']}") as client:
        answers = []
        client.start_stream(lambda result, error: answers.append((result, error)))
        for number in range(200):
            value = float(number if number % 3 == 0 else 1)
            tensor = grpcclient.InferInput("IN", (1, 1), "FP32").set_data_from_numpy(np.array([[value]], np.float32))
            client.async_stream_infer("m", [tensor], request_id=str(number))
        client.stop_stream()
    assert [error for _, error in answers] == [None] * 200
    assert [result.get_response().id for result, _ in answers] == [str(number) for number in range(200)]
    expected = [(number if number % 3 == 0 else 1) + 1 for number in range(200)]
    assert [result.as_numpy("OUT").item() for result, _ in answers] == expected


def test_a_small_cache_throws_out_what_nobody_asks_for(serve):
    server = serve(cache_config={"local": {"size": "8192"}})
    values(server, "grpc", value=1.0, count=5)
    for value in range(10, 40):
        values(server, "grpc", value=float(value), count=1)
        assert values(server, "grpc", value=1.0, count=1) == {2}
    # It was looked up in between, though the cache saw nothing of it.
    assert server.model("m").statistics().inference_count == 31
    assert metric(server, "nv_cache_util") <= 1
    assert metric(server, "nv_cache_num_evictions") > 0
