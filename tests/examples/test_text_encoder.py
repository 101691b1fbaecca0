"""W3: a text encoder over HTTP, and the statistics as newcomers read them."""

import re
import textwrap
from pathlib import Path

import numpy as np
import pytest
import tritonclient.http as httpclient
from onnx import helper

from tests.models import onnx_models

PAGE = Path(__file__).parents[2] / "docs" / "from-triton.md"


def encoder():
    """input_ids, attention_mask INT64 [1, 6] → output FP32 [1, 6]: the ids that are not masked."""
    inputs = [onnx_models._value(name, "INT64", [1, 6]) for name in ("input_ids", "attention_mask")]
    nodes = [
        helper.make_node("Mul", ["input_ids", "attention_mask"], ["masked"]),
        helper.make_node("Cast", ["masked"], ["output"], to=onnx_models.ONNX_TYPES["FP32"]),
    ]
    return onnx_models._model("encoder", nodes, inputs, [onnx_models._value("output", "FP32", [1, 6])])


@pytest.fixture
def client(repository, embedded):
    onnx_models.save(encoder(), repository, "bert_onnx")
    server = embedded()
    with httpclient.InferenceServerClient(url=f"localhost:{server.ports['http']}") as opened:
        yield opened


def ask(client):
    ids = np.array([[101, 7592, 1010, 2088, 999, 102]], np.int64)
    mask = np.array([[1, 1, 1, 1, 1, 0]], np.int64)
    inputs = [
        httpclient.InferInput("input_ids", [1, 6], "INT64"),
        httpclient.InferInput("attention_mask", [1, 6], "INT64"),
    ]
    inputs[0].set_data_from_numpy(ids)
    inputs[1].set_data_from_numpy(mask)
    result = client.infer("bert_onnx", inputs, outputs=[httpclient.InferRequestedOutput("output")])
    np.testing.assert_array_equal(result.as_numpy("output"), (ids * mask).astype(np.float32))


def test_as_told(client):
    assert client.is_server_live()
    metadata = client.get_model_metadata("bert_onnx")
    assert (metadata["name"], metadata["versions"]) == ("bert_onnx", ["1"])
    ask(client)
    ask(client)
    stats = client.get_inference_statistics("bert_onnx")["model_stats"][0]
    assert stats["inference_count"] == 2
    durations = stats["inference_stats"]
    assert set(durations) >= {"success", "fail", "queue", "compute_input", "compute_infer", "compute_output"}
    assert set(durations["success"]) == {"count", "ns"}
    assert durations["compute_infer"]["count"] == 2


def python_blocks():
    return [textwrap.dedent(block) for block in re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)]


def test_a_server_compared_with_itself_shows_no_difference(client, capsys):
    (code,) = (block for block in python_blocks() if "unified_diff" in block)
    port = client._parsed_url.port
    exec(compile(re.sub(r"localhost:\d+", f"localhost:{port}", code), str(PAGE), "exec"), {"__name__": "compare"})
    assert capsys.readouterr().out == "bert_onnx\n"


def test_the_page_for_newcomers_shows_expressions_that_work(client):
    ask(client)
    (code,) = (block for block in python_blocks() if "compute_infer" in block)
    printed = []
    exec(
        compile(code, str(PAGE), "exec"),
        {"client": client, "model": "bert_onnx", "print": lambda *a: printed.append(a)},
    )
    (milliseconds,) = [each for line in printed for each in line if isinstance(each, float)]
    assert milliseconds > 0
