"""The longest times that a request or a configuration can give: they are no reason for a server to end."""

import json

import pytest

MAX_INT64, MAX_UINT64 = 2**63 - 1, 2**64 - 1
IDLE = f"max_sequence_idle_microseconds: {MAX_UINT64}"
IN_SEQUENCES = {
    "idle": f"sequence_batching {{ {IDLE} }}",
    "direct": f"""sequence_batching {{ {IDLE} direct {{
        max_queue_delay_microseconds: {MAX_UINT64} minimum_slot_utilization: 0.5 }} }}""",
    "oldest": f"""sequence_batching {{ {IDLE} oldest {{
        max_queue_delay_microseconds: {MAX_UINT64} preferred_batch_size: [ 2 ] }} }}""",
}
WITHOUT = {
    "delay": f"dynamic_batching {{ max_queue_delay_microseconds: {MAX_UINT64} preferred_batch_size: [ 2 ] }}",
    "default": f"dynamic_batching {{ default_queue_policy {{ default_timeout_microseconds: {MAX_UINT64} }} }}",
    "override": """dynamic_batching {
        max_queue_delay_microseconds: 100 default_queue_policy { allow_timeout_override: true } }""",
}


def body(**parameters):
    tensor = {"name": "INPUT0", "datatype": "FP32", "shape": [1, 1], "data": [4.0]}
    return json.dumps({"inputs": [tensor], "parameters": parameters})


@pytest.mark.parametrize("name", [*IN_SEQUENCES, *WITHOUT])
def test_two_requests_are_answered_and_the_server_lives_on(serve, repository, name):
    repository.add(name, {**IN_SEQUENCES, **WITHOUT}[name])
    server = serve(repository.flag).started()
    connections = [server.connect() for _ in range(2)]
    for number, connection in enumerate(connections, 1):
        sequence = {"sequence_id": number, "sequence_start": True} if name in IN_SEQUENCES else {}
        connection.request("POST", f"/v2/models/{name}/infer", body(timeout=MAX_INT64, **sequence))
        assert server.ask("GET", "/v2/health/live").status == 200  # it has read the first one
    assert [connection.getresponse().status for connection in connections] == [200, 200]
    assert server.ask("GET", "/v2/health/live").status == 200
    server.signal()
    assert server.exit_code() == 0


def test_a_sequence_that_would_wait_for_a_slot_for_ages(serve, repository):
    repository.add("m", "sequence_batching { direct { } }", delay_ms=500)
    server = serve(repository.flag).started()
    connections = [server.connect() for _ in range(6)]  # there are four slots
    for number, connection in enumerate(connections, 1):
        flags = {"sequence_id": number, "sequence_start": True, "sequence_end": True}
        connection.request("POST", "/v2/models/m/infer", body(timeout=MAX_INT64, **flags))
    assert [connection.getresponse().status for connection in connections] == [200] * 6
    assert server.ask("GET", "/v2/health/live").status == 200
