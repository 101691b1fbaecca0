"""What the HTTP client has of its own: compression, binary and JSON tensors, asynchronous calls, plugins, headers."""

import numpy as np
import pytest
import tritonclient.http as httpclient
from tritonclient.utils import InferenceServerException

from tests.models.gated import PATIENCE_S


def inputs(value=3, binary=True):
    made = []
    for name in ("INPUT0", "INPUT1"):
        array = np.full((1, 16), value, np.float32)
        made.append(httpclient.InferInput(name, [1, 16], "FP32").set_data_from_numpy(array, binary_data=binary))
    return made


@pytest.mark.parametrize("request_coding", [None, "gzip", "deflate"])
@pytest.mark.parametrize("response_coding", [None, "gzip", "deflate"])
@pytest.mark.parametrize("binary", [True, False])
def test_compression(http, request_coding, response_coding, binary):
    result = http.infer(
        "add_sub",
        inputs(binary=binary),
        outputs=[httpclient.InferRequestedOutput("OUTPUT0", binary_data=binary)],
        request_compression_algorithm=request_coding,
        response_compression_algorithm=response_coding,
    )
    assert result.as_numpy("OUTPUT0").tolist() == [[6] * 16]


@pytest.mark.parametrize("binary_in", [True, False])
@pytest.mark.parametrize("binary_out", [True, False])
def test_binary_and_json_tensors(http, binary_in, binary_out):
    outputs = [httpclient.InferRequestedOutput(name, binary_data=binary_out) for name in ("OUTPUT0", "OUTPUT1")]
    result = http.infer("add_sub", inputs(binary=binary_in), outputs=outputs)
    assert result.as_numpy("OUTPUT0").tolist() == [[6] * 16]
    assert ("data" in result.get_output("OUTPUT0")) is not binary_out


def test_outputs_of_both_kinds(http):
    outputs = [
        httpclient.InferRequestedOutput("OUTPUT0", binary_data=False),
        httpclient.InferRequestedOutput("OUTPUT1", binary_data=True),
    ]
    result = http.infer("add_sub", inputs(), outputs=outputs)
    assert result.as_numpy("OUTPUT0").tolist() == [[6] * 16]
    assert result.as_numpy("OUTPUT1").tolist() == [[0] * 16]


def test_asynchronous_calls(http):
    calls = [http.async_infer("add_sub", inputs(value), request_id=str(value)) for value in range(20)]
    for value, call in enumerate(calls):
        result = call.get_result(timeout=PATIENCE_S)
        assert result.as_numpy("OUTPUT0").tolist() == [[2 * value] * 16]
        assert result.get_response()["id"] == str(value)


def test_an_asynchronous_call_that_fails(http):
    call = http.async_infer("nope", inputs())
    with pytest.raises(InferenceServerException, match="nope"):
        call.get_result(timeout=PATIENCE_S)


def test_bodies_made_and_read_by_hand(http, server):
    import httpx

    body, json_size = httpclient.InferenceServerClient.generate_request_body(inputs())
    answer = httpx.post(
        f"http://127.0.0.1:{server.ports['http']}/v2/models/add_sub/infer",
        content=body,
        headers={"Inference-Header-Content-Length": str(json_size)},
        verify=False,
    )
    length = answer.headers.get("Inference-Header-Content-Length")
    result = httpclient.InferenceServerClient.parse_response_body(
        answer.content, header_length=int(length) if length else None
    )
    assert result.as_numpy("OUTPUT0").tolist() == [[6] * 16]


def test_plugins_and_headers(server):
    seen = []

    class Plugin(httpclient.InferenceServerClientPlugin):
        def __call__(self, request):
            seen.append(dict(request.headers))
            request.headers["authorization"] = "Bearer none"

    with httpclient.InferenceServerClient(f"127.0.0.1:{server.ports['http']}") as client:
        client.register_plugin(Plugin())
        assert client.is_server_live(headers={"x-mine": "1"}, query_params={"a": "b c"})
        result = client.infer("add_sub", inputs(), headers={"x-mine": "2"}, query_params={"a": 1})
        assert result.as_numpy("OUTPUT0").shape == (1, 16)
        client.unregister_plugin()
        assert client.is_server_ready()
    assert [headers["x-mine"] for headers in seen] == ["1", "2"]


def test_verbose(server, capsys):
    with httpclient.InferenceServerClient(f"127.0.0.1:{server.ports['http']}", verbose=True) as client:
        client.infer("add_sub", inputs())
    assert "/v2/models/add_sub/infer" in capsys.readouterr().out


def test_asyncio_calls_side_by_side(server):
    import asyncio

    import tritonclient.http.aio as aio

    async def ask():
        async with aio.InferenceServerClient(f"127.0.0.1:{server.ports['http']}") as client:
            results = await asyncio.gather(*[client.infer("add_sub", inputs(value)) for value in range(20)])
            return [result.as_numpy("OUTPUT0")[0, 0] for result in results]

    assert asyncio.run(ask()) == [2 * value for value in range(20)]
