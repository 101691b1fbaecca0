"""The smallest backend."""

import threading
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

from charonia.backends.identity import IdentityBackend
from charonia.config.schema import ModelConfig
from charonia.core.errors import InvalidArgumentError


def _config(inputs: str = "ab", outputs: str = "xy", extra: str = "", output_type: str = "TYPE_FP32") -> ModelConfig:
    text = "".join(f'input {{ name: "{name}" data_type: TYPE_FP32 dims: [ -1 ] }} ' for name in inputs)
    text += "".join(f'output {{ name: "{name}" data_type: {output_type} dims: [ -1 ] }} ' for name in outputs)
    return text_format.Parse(f'name: "m" max_batch_size: 4 {text} {extra}', ModelConfig())


def _delay(value: str) -> str:
    return f'parameters {{ key: "execute_delay_ms" value: {{ string_value: "{value}" }} }}'


@pytest.fixture
def serve(context_for: Any, runner_of: Any, spec: Any) -> Any:
    def make(config: ModelConfig) -> Any:
        return runner_of(IdentityBackend().load(context_for(config)).create_instance(spec), config)

    return make


def test_outputs_are_the_inputs_in_order(serve: Any) -> None:
    first, second = np.array([[1, 2]], np.float32), np.array([[3]], np.float32)
    made = serve(_config()).arrays({"a": first, "b": second}, {"a": second, "b": first})
    assert [{name: array.tolist() for name, array in one.items()} for one in made] == [
        {"x": [[1, 2]], "y": [[3]]},
        {"x": [[3]], "y": [[1, 2]]},
    ]


def test_nothing_is_copied(serve: Any) -> None:
    runner = serve(_config("a", "x"))
    reply = runner.run({"a": np.ones((1, 4), np.float32)})[0]
    assert reply.outputs[0].buffer is reply.request.inputs["a"].buffer


def test_closing_the_model_ends_a_long_delay(context_for: Any, runner_of: Any, spec: Any) -> None:
    config = _config(extra=_delay("3600000"))
    model = IdentityBackend().load(context_for(config))
    runner = runner_of(model.create_instance(spec), config)
    one = {"a": np.ones((1, 1), np.float32), "b": np.ones((1, 1), np.float32)}
    done = threading.Event()

    def run() -> None:
        runner.arrays(one)
        done.set()

    thread = threading.Thread(target=run)
    thread.start()
    model.close()
    assert done.wait(30)
    thread.join()


@pytest.mark.parametrize(
    ("config", "words"),
    [
        (_config("a", "xy"), "2 outputs for 1 inputs.*'y' has none"),
        (_config(output_type="TYPE_INT8"), "output 'x' with input 'a'.*same data_type"),
        (_config(extra=_delay("soon")), "'execute_delay_ms'.*got 'soon'"),
    ],
)
def test_wrong_configurations(context_for: Any, config: ModelConfig, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"model 'm'.*{words}"):
        IdentityBackend().load(context_for(config))


def test_an_absent_optional_input_is_answered_with_zeros_where_its_dims_say_how_many(serve: Any) -> None:
    config = _config()
    for number, dims in enumerate(([2], [-1])):
        config.input[number].optional = True
        config.input[number].dims[:] = dims
        config.output[number].dims[:] = dims
    given = np.ones((2, 2), np.float32)
    alone, both = serve(config).arrays({}, {"a": given, "b": given})
    assert {name: array.tolist() for name, array in alone.items()} == {"x": [[0, 0]]}
    assert {name: array.tolist() for name, array in both.items()} == {"x": given.tolist(), "y": given.tolist()}


def test_zeros_have_as_many_rows_as_the_request(serve: Any) -> None:
    config = _config()
    config.input[0].optional = True
    config.input[0].dims[:] = config.output[0].dims[:] = [1]
    (made,) = serve(config).arrays({"b": np.ones((3, 1), np.float32)})
    assert made["x"].tolist() == [[0], [0], [0]]
