"""What the log and a load request say of configurations, in a whole server without listeners."""

# One case a line reads best as a table.
# ruff: noqa: E501

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from charonia.core.errors import InvalidArgumentError
from charonia.core.overrides import LoadOverrides
from charonia.observe.log import LogSettings, ServerLog
from charonia.options import ServerOptions
from charonia.server import Server
from charonia.testing.log import KeptLines
from tests.models import onnx_models

WRONG = """max_batch_size: 8
input {
  name: "INPUT0"
  data_type: TYPE_FP32
  dims: [ -1, 16 ]
}
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ 16 ] }
"""


@pytest.fixture
def written() -> KeptLines:
    return KeptLines()


@pytest.fixture
def start(tmp_path: Path, written: KeptLines) -> Iterator[Callable[..., Server]]:
    """A server with an ONNX model `m`, its configuration as given."""
    servers: list[Server] = []

    def run(config: str | None = None, verbose: int = 0, **settings: Any) -> Server:
        onnx_models.save(onnx_models.identity("FP32", ["N", 16]), tmp_path, "m")
        if config is not None:
            (tmp_path / "m" / "config.pbtxt").write_text(config)
        options = ServerOptions(
            model_repository=[str(tmp_path)], allow_http=False, allow_grpc=False, allow_metrics=False,
            exit_on_error=False, **settings,
        )  # fmt: skip
        servers.append(Server(options, ServerLog(LogSettings(verbose_level=verbose), written)))
        servers[-1].load()
        return servers[-1]

    yield run
    for server in servers:
        server.stop()


def test_a_mistake_is_shown_once_with_its_line_a_caret_and_what_would_fit(
    tmp_path: Path, start: Callable[..., Server], written: KeptLines
) -> None:
    start(WRONG)
    lines = written.text.split("\n")
    at = next(number for number, line in enumerate(lines) if line.startswith("E"))
    place = f"{tmp_path}/m/config.pbtxt:5:3"
    assert f"failed to load 'm' version 1: {place}: dims of input 'INPUT0' are [-1, 16] with the batch" in lines[at]
    assert not [line for line in lines[at + 1 :] if line.startswith("E")]
    assert lines[at + 1 : at + 7] == [
        "      dims: [ -1, 16 ]",
        "      ^",
        "    what fits model.onnx:",
        "      max_batch_size: 8",
        '      input { name: "INPUT0" data_type: TYPE_FP32 dims: [16] }',
        '      output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [16] }',
    ]


def test_what_was_filled_in_is_said_once(start: Callable[..., Server], written: KeptLines) -> None:
    start(verbose=1)
    lines = written.text.split("\n")
    (filled,) = [line for line in lines if "model 'm': it has no configuration, so this is filled in" in line]
    assert "max_batch_size: 4 (every first dimension of the model is open" in filled
    (whole,) = [line for line in lines if "model 'm' has this configuration" in line]
    assert r"# max_batch_size: every first dimension" in whole


OVERRIDES = [
    ({"max_batch_sise": 1}, "config override:1:2: ModelConfig has no field 'max_batch_sise'; did you mean 'max_batch_size'?"),
    ({"input": [{"name": "INPUT0", "dims": [1, "x"]}]}, "config override:1:43: input[0].dims[1]: 'dims' takes a whole number, got x"),
    ({"parameters": {"a": "b"}}, 'config override:1:22: parameters["a"]: the value for "a"'),
    ({"name": "other"}, "config override:1:2: name: name is \"other\", but the model's folder is 'm'"),
    ({"max_batch_size": 2, "input": [{"name": "INPUT0", "data_type": "TYPE_FP64"}]}, "config override:1:52: input[0].data_type: data_type of input 'INPUT0' is TYPE_FP64, but model.onnx has TYPE_FP32; write \"data_type\": \"TYPE_FP32\""),
]  # fmt: skip


@pytest.mark.parametrize(("config", "expected"), OVERRIDES)
def test_an_override_that_is_wrong_is_answered_with_its_place_and_path(
    start: Callable[..., Server], config: dict[str, Any], expected: str
) -> None:
    server = start(model_control_mode="explicit")
    with pytest.raises(InvalidArgumentError) as caught:
        server.control.load("m", LoadOverrides(json.dumps(config)))
    assert expected in str(caught.value)


def test_an_override_may_set_parameters(start: Callable[..., Server]) -> None:
    server = start(model_control_mode="explicit")
    text = json.dumps({"maxBatchSize": 2, "parameters": {"a": {"string_value": "b"}}})
    server.control.load("m", LoadOverrides(text))
    config = server.models.find("m").config
    assert (config.max_batch_size, config.parameters["a"].string_value) == (2, "b")
