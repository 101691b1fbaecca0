"""Merging what a model file says into a configuration."""

# One case a line reads best as a table.
# ruff: noqa: E501

import pytest
from google.protobuf import text_format

from charonia.config.complete import Completed, ModelTensor, complete_from_model, leaves_open
from charonia.config.pbtxt import parse_pbtxt
from charonia.config.schema import ModelConfig

IMAGE = ModelTensor("image", "FP32", (-1, 3, 224, 224))
SCORES = ModelTensor("scores", "FP32", (-1, 1000))
FIXED = ModelTensor("x", "INT64", (1, 16))


def complete(text: str, inputs: list[ModelTensor], outputs: list[ModelTensor], default: int = 4) -> Completed:
    document = parse_pbtxt(text, "c")
    return complete_from_model(
        document.config,
        inputs,
        outputs,
        model_file="model.onnx",
        default_max_batch_size=default,
        places=document.places,
    )


def says(text: str) -> ModelConfig:
    """The parts of a configuration that a model file can fill in."""
    return text_format.Parse(text, ModelConfig())


def told(completed: Completed) -> ModelConfig:
    config = ModelConfig()
    config.CopyFrom(completed.config)
    for name in ("version_policy", "optimization"):
        config.ClearField(name)
    return config


BATCHED = 'input { name: "image" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] } output { name: "scores" data_type: TYPE_FP32 dims: 1000 }'
WHOLE = 'input { name: "image" data_type: TYPE_FP32 dims: [ -1, 3, 224, 224 ] } output { name: "scores" data_type: TYPE_FP32 dims: [ -1, 1000 ] }'
DYNAMIC = "dynamic_batching { preferred_batch_size: %d }"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("", f"max_batch_size: 4 {BATCHED} {DYNAMIC % 4}", id="nothing said"),
        pytest.param("max_batch_size: 16", f"max_batch_size: 16 {BATCHED} {DYNAMIC % 16}", id="a size"),
        pytest.param("max_batch_size: 1", f"max_batch_size: 1 {BATCHED}", id="one row needs no dynamic batching"),
        pytest.param("max_batch_size: 0", WHOLE, id="no batching, in so many words"),
        pytest.param("sequence_batching { direct { } }", f"max_batch_size: 4 {BATCHED} sequence_batching {{ direct {{ }} max_sequence_idle_microseconds: 1000000 }}", id="sequences keep their batcher"),
        pytest.param("dynamic_batching { max_queue_delay_microseconds: 9 }", f"max_batch_size: 4 {BATCHED} dynamic_batching {{ preferred_batch_size: 4 max_queue_delay_microseconds: 9 }}", id="dynamic batching keeps its settings"),
        pytest.param('input { name: "image" data_type: TYPE_FP32 dims: [ 3, 224, 224 ] }', f"max_batch_size: 4 {BATCHED} {DYNAMIC % 4}", id="only inputs"),
        pytest.param('output { name: "scores" data_type: TYPE_FP32 dims: [ -1, 1000 ] }', WHOLE, id="dims that hold the batch leave no room for one"),
        pytest.param('max_batch_size: 8 input { name: "image" } output { name: "scores" label_filename: "l" }', f"max_batch_size: 8 {BATCHED[:-2]} label_filename: 'l' }} {DYNAMIC % 8}", id="only names"),
        pytest.param('max_batch_size: 8 input { name: "image" dims: [ 3, 224, 224 ] } output { name: "scores" data_type: TYPE_FP32 }', f"max_batch_size: 8 {BATCHED} {DYNAMIC % 8}", id="a datatype here and dims there"),
        pytest.param(f"max_batch_size: 8 {BATCHED}", f"max_batch_size: 8 {BATCHED}", id="everything said: scheduling stays as it is"),
        pytest.param(WHOLE, WHOLE, id="everything said, without batching"),
    ],
)  # fmt: skip
def test_a_model_that_batches(text: str, expected: str) -> None:
    completed = complete(text, [IMAGE], [SCORES])
    assert completed.findings == ()
    assert told(completed) == says(expected)


def test_the_configuration_that_was_given_is_not_changed() -> None:
    config = ModelConfig(name="m")
    complete_from_model(config, [IMAGE], [SCORES], model_file="model.onnx")
    assert config == ModelConfig(name="m")


@pytest.mark.parametrize(("default", "expected"), [(0, 0), (1, 1), (32, 32)])
def test_the_default_size_of_the_backend(default: int, expected: int) -> None:
    completed = complete("", [IMAGE], [SCORES], default)
    assert completed.config.max_batch_size == expected
    assert completed.config.HasField("dynamic_batching") == (expected > 1)


def test_one_fixed_first_dimension_means_no_batching() -> None:
    completed = complete("", [FIXED], [SCORES])
    expected = 'input { name: "x" data_type: TYPE_INT64 dims: [ 1, 16 ] } output { name: "scores" data_type: TYPE_FP32 dims: [ -1, 1000 ] }'
    assert told(completed) == says(expected)


def test_scalars() -> None:
    completed = complete("", [ModelTensor("s", "INT64", ())], [ModelTensor("t", "BOOL", (-1,))])
    expected = 'input { name: "s" data_type: TYPE_INT64 dims: 1 } output { name: "t" data_type: TYPE_BOOL dims: -1 }'
    assert told(completed) == says(expected)
    assert completed.findings == ()


def test_a_scalar_for_each_row() -> None:
    completed = complete("", [ModelTensor("s", "BYTES", (-1,))], [ModelTensor("t", "BF16", (-1,))])
    expected = (
        'input { name: "s" data_type: TYPE_STRING dims: 1 reshape { shape: [ ] } }'
        'output { name: "t" data_type: TYPE_BF16 dims: 1 reshape { shape: [ ] } }'
    )
    assert told(completed) == says(f"max_batch_size: 4 {expected} {DYNAMIC % 4}")
    assert completed.findings == ()


def test_inputs_with_a_default_are_optional() -> None:
    optional = ModelTensor("bias", "FP32", (4,), optional=True)
    completed = complete("max_batch_size: 0", [FIXED, optional], [SCORES])
    assert [io.optional for io in completed.config.input] == [False, True]


def test_tensors_that_the_server_fills_are_not_inputs() -> None:
    text = 'max_batch_size: 2 sequence_batching { control_input { name: "START" control { int32_false_true: [ 0, 1 ] } } state { input_name: "in" output_name: "out" } }'
    control, state_in, state_out = (ModelTensor(name, "INT32", (-1, 1)) for name in ("START", "in", "out"))
    completed = complete(text, [IMAGE, control, state_in], [SCORES, state_out])
    assert [io.name for io in completed.config.input] == ["image"]
    assert [io.name for io in completed.config.output] == ["scores"]
    assert completed.findings == ()


def test_what_was_filled_in_and_why() -> None:
    completed = complete('input { name: "image" }', [IMAGE], [SCORES])
    assert [str(completion) for completion in completed.completions] == [
        "max_batch_size: 4 (every first dimension of the model is open, and default-max-batch-size says so)",
        "dynamic_batching: { } (the model batches and no scheduling is set)",
        "input[0].data_type: TYPE_FP32 (from model.onnx)",
        "input[0].dims: [3, 224, 224] (from model.onnx)",
        'output[0]: { name: "scores" data_type: TYPE_FP32 dims: [1000] } (from model.onnx)',
        "version_policy: { latest { num_versions: 1 } } (default)",
        "dynamic_batching.preferred_batch_size: [ 4 ] (max_batch_size)",
        "optimization.input_pinned_memory: { enable: true } (default)",
        "optimization.output_pinned_memory: { enable: true } (default)",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", True), ('input { name: "a" }', True), (BATCHED, False), (BATCHED.replace("data_type: TYPE_FP32 dims: 1000", "dims: 1000"), True)],
)  # fmt: skip
def test_whether_something_is_left_open(text: str, expected: bool) -> None:
    assert leaves_open(parse_pbtxt(text, "c").config) is expected
