"""Instances that wait for resources of the rate limiter, passive ones, and ones that have cores of their own."""

import os

import numpy as np
import pytest

from charonia.api import Server
from charonia.core.errors import InvalidArgumentError, NotFoundError
from tests.every_door.doors import DOORS, RefusedError
from tests.every_door.served import ask, row, value_of
from tests.every_door.watched import WatchedQueue
from tests.models.repository import write_config, write_python_model

LIMITED = {"rate_limit": "execution_count"}
TWO_FOR_ONE = 'instance_group { count: 2 kind: KIND_CPU rate_limiter { resources { name: "R" count: 1 } } }'


def test_one_of_two_instances_executes_while_there_is_enough_for_one(gated):
    served = gated(f"max_batch_size: 8 dynamic_batching {{ }} {TWO_FOR_ONE}", **LIMITED)
    watched = WatchedQueue(served.model)
    first = served.occupy()
    watched.wait_queued()
    later = [served.send(value) for value in range(1, 5)]
    for _ in later:
        watched.wait_queued()
    served.gate.open()
    assert value_of(first) == 0
    assert served.gate.next_entered()["values"] == [1, 2, 3, 4]  # what came meanwhile goes as one batch
    served.gate.open_for_good()
    assert [value_of(future) for future in later] == [1, 2, 3, 4]
    assert served.batch_statistics() == {1: 1, 4: 1}


def test_with_enough_for_two_both_execute(gated):
    served = gated(f"max_batch_size: 1 {TWO_FOR_ONE}", rate_limit_resource=["R:2"], **LIMITED)
    futures = [served.occupy(1), served.occupy(2)]  # both have entered, and neither has left
    served.gate.open_for_good()
    assert [value_of(future) for future in futures] == [1, 2]


def test_without_the_limiter_nothing_waits(gated):
    served = gated(f"max_batch_size: 1 {TWO_FOR_ONE}", rate_limit_resource=["R:0"])
    futures = [served.occupy(1), served.occupy(2)]
    served.gate.open_for_good()
    assert [value_of(future) for future in futures] == [1, 2]


@pytest.mark.parametrize("name", DOORS)
def test_who_waits_for_resources_may_wait_too_long(gated, name):
    served = gated(
        "max_batch_size: 1 dynamic_batching { default_queue_policy { allow_timeout_override: true } } " + TWO_FOR_ONE,
        **LIMITED,
    )
    first = served.occupy()
    with pytest.raises(RefusedError, match=r"Request timeout expired.*'m'"):
        ask(name, served.server, "m", row(1), timeout_us=1000)
    served.gate.open_for_good()
    assert value_of(first) == 0
    np.testing.assert_array_equal(ask(name, served.server, "m", row(2))["OUT"], [[2]])


def test_who_waits_for_resources_may_be_cancelled(gated):
    served = gated(f"max_batch_size: 1 dynamic_batching {{ }} {TWO_FOR_ONE}", **LIMITED)
    first = served.occupy()
    second = served.send(1)
    second.cancel()
    assert second.cancelled()
    served.gate.open_for_good()
    assert value_of(first) == 0
    assert value_of(served.send(2)) == 2


def test_a_server_stops_while_requests_wait_for_resources(gated):
    served = gated(f"max_batch_size: 1 {TWO_FOR_ONE}", **LIMITED)
    first = served.occupy()
    waiting = [served.send(value) for value in range(1, 4)]
    served.gate.open_for_good()
    served.server.stop()
    assert value_of(first) == 0
    assert [value_of(future) for future in waiting] == [1, 2, 3]


CALLER = """
    import numpy as np
    import triton_python_backend_utils as pb_utils
    from concurrent.futures import ThreadPoolExecutor

    class TritonPythonModel:
        def execute(self, requests):
            return [self.one(request) for request in requests]

        def one(self, request):
            call = pb_utils.InferenceRequest(
                model_name=CALLED, requested_output_names=["OUT"], inputs=request.inputs()
            )
            if IN_A_THREAD:
                with ThreadPoolExecutor(1) as pool:
                    response = pool.submit(call.exec).result()
            else:
                response = call.exec()
            if response.has_error():
                return pb_utils.InferenceResponse(error=response.error())
            return pb_utils.InferenceResponse([pb_utils.Tensor("OUT", response.output_tensors()[0].as_numpy())])
"""
TENSORS = """
    max_batch_size: 4
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
    output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""
DOUBLE = """
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            arrays = [request.inputs()[0].as_numpy() for request in requests]
            return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array * 2)]) for array in arrays]
"""
STEP = 'input_map { key: "IN" value: "IN" } output_map { key: "OUT" value: "OUT" }'


def needing(name="R", count=1):
    return f'instance_group {{ kind: KIND_CPU rate_limiter {{ resources {{ name: "{name}" count: {count} }} }} }}'


def form(name):
    return f'parameters {{ key: "execution" value {{ string_value: "{name}" }} }}'


@pytest.fixture(scope="module", params=["inline", "isolated"])
def calling(tmp_path_factory, request):
    """Models that need R, of which there is one, and call others that need it too, or do not."""
    folder = tmp_path_factory.mktemp(request.param)
    more = form(request.param)
    write_python_model(folder, "double", TENSORS + needing() + more, DOUBLE)
    write_python_model(folder, "free", TENSORS + more, DOUBLE)
    step = f'step {{ model_name: "double" model_version: -1 {STEP} }}'
    (write_config(folder, "pipe", f'platform: "ensemble" {TENSORS} ensemble_scheduling {{ {step} }}') / "1").mkdir()
    for name, called, in_a_thread in (
        ("caller", "double", False),
        ("threads", "double", True),
        ("through_pipe", "pipe", False),
        ("unhindered", "free", False),
    ):
        code = CALLER.replace("CALLED", repr(called)).replace("IN_A_THREAD", repr(in_a_thread))
        write_python_model(folder, name, TENSORS + needing() + more, code)
    code = CALLER.replace("CALLED", "'caller'").replace("IN_A_THREAD", "False")
    write_python_model(folder, "above", TENSORS + more, code)
    with Server(folder, http_port=0, grpc_port=0, metrics_port=0, **LIMITED) as server:
        yield server


@pytest.mark.parametrize("name", DOORS)
@pytest.mark.parametrize("model", ["caller", "through_pipe", "above"])
def test_a_call_that_waits_for_what_its_caller_holds_is_an_error(calling, name, model):
    with pytest.raises(RefusedError, match=r"'double' would wait for ever.*holds 1 of the 1 of resource 'R'"):
        ask(name, calling, model, row(1))
    np.testing.assert_array_equal(ask(name, calling, "double", row(1))["OUT"], [[2]])
    np.testing.assert_array_equal(ask(name, calling, "unhindered", row(3))["OUT"], [[6]])


def test_so_is_one_by_a_thread_of_an_isolated_model(calling):
    if calling.model("threads").config.parameters["execution"].string_value == "inline":
        pytest.skip("inline, threads of the user's are not known")
    with pytest.raises(Exception, match=r"'double' would wait for ever"):
        calling.model("threads").infer({"IN": np.ones((1, 1), np.float32)})


@pytest.mark.parametrize("execution", ["inline", "isolated"])
def test_a_call_that_the_cache_answers_needs_no_turn(tmp_path, execution):
    more = TENSORS + needing() + form(execution)
    write_python_model(tmp_path, "double", more + "response_cache { enable: true }", DOUBLE)
    code = CALLER.replace("CALLED", "'double'").replace("IN_A_THREAD", "False")
    write_python_model(tmp_path, "caller", more, code)
    write_python_model(tmp_path, "first", TENSORS + form(execution), code)
    options = {"http_port": 0, "grpc_port": 0, "metrics_port": 0, "cache_config": {"local": {"size": "100000"}}}
    with Server(tmp_path, **options, **LIMITED) as server:
        for name in DOORS:
            with pytest.raises(RefusedError, match="'double' would wait for ever"):
                ask(name, server, "caller", row(5))
            for model in ("first", "caller"):
                np.testing.assert_array_equal(ask(name, server, model, row(3))["OUT"], [[6]])


def test_what_needs_more_than_there_is_is_not_loaded(tmp_path):
    write_python_model(tmp_path, "m", TENSORS + needing(count=4) + form("inline"), DOUBLE)
    options = {"rate_limit_resource": ["R:3"], "exit_on_error": False, **LIMITED}
    reason = r'Resource count for "R" is limited to 3.*m_0_0 needs 4'
    with (
        Server(tmp_path, http_port=0, grpc_port=0, metrics_port=0, **options) as server,
        pytest.raises(NotFoundError, match=reason),
    ):
        server.model("m")


def test_other_needs_take_effect_without_a_new_load(tmp_path):
    """The resource is there as often as it is needed at most, and what is loaded anew counts from then on."""
    write_python_model(tmp_path, "m", TENSORS + needing(count=2) + form("inline"), DOUBLE)
    options = {"model_control_mode": "explicit", "load_model": ["*"], "rate_limit_resource": ["R:10"], **LIMITED}
    with Server(tmp_path, http_port=0, grpc_port=0, metrics_port=0, **options) as server:
        for count, is_right in ((8, True), (32, False), (10, True), (1, True)):
            (tmp_path / "m" / "config.pbtxt").write_text(
                'name: "m" backend: "python"' + TENSORS + needing(count=count) + form("inline")
            )
            if is_right:
                server.load_model("m")
            else:
                with pytest.raises(InvalidArgumentError, match="limited to 10"):
                    server.load_model("m")
            assert value_of(server.model("m").submit(row(3))) == 6


@pytest.mark.parametrize("name", DOORS)
def test_passive_instances_get_no_requests(gated, name):
    served = gated("max_batch_size: 1 instance_group [ { kind: KIND_CPU passive: true count: 3 }, { kind: KIND_CPU } ]")
    served.gate.open_for_good()
    for value in range(4):
        ask(name, served.server, "m", row(value))
    assert {served.gate.next_entered()["instance"] for _ in range(4)} == {"m_1_0"}


@pytest.mark.parametrize("name", DOORS)
def test_a_model_of_passive_instances_is_ready_and_refuses(gated, name):
    served = gated(
        "max_batch_size: 1 instance_group { kind: KIND_CPU passive: true secondary_devices { device_id: 1 } }"
    )
    assert served.model.ready
    with pytest.raises(RefusedError, match="'m' has only passive instance groups") as refusal:
        ask(name, served.server, "m", row(1))
    assert refusal.value.code == "UNAVAILABLE"


CORES = """
    import os
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def execute(self, requests):
            cores = np.array([sorted(os.sched_getaffinity(0))], np.float32)
            return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", cores)]) for _ in requests]
"""


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="the system binds no threads to cores")
@pytest.mark.parametrize("where", ["inline", "isolated"])
def test_instances_of_a_policy_run_on_its_cores(tmp_path, where):
    mine = sorted(os.sched_getaffinity(0))
    group = 'instance_group { kind: KIND_CPU host_policy: "first" }'
    write_python_model(tmp_path, "bound", TENSORS + group + form(where), CORES)
    write_python_model(tmp_path, "free", TENSORS + form(where), CORES)
    policy = {"first": {"cpu-cores": f"{mine[0]}-{mine[0]}"}}
    with Server(tmp_path, http_port=0, grpc_port=0, metrics_port=0, host_policy=policy) as server:
        for model, cores in (("bound", mine[:1]), ("free", mine)):
            answer = server.model(model).infer({"IN": np.ones((1, 1), np.float32)})
            assert np.asarray(answer["OUT"]).ravel().tolist() == cores
    assert sorted(os.sched_getaffinity(0)) == mine
