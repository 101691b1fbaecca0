"""Any configuration that can be written: it is read, completed, checked, explained and printed without a fault."""

from pathlib import Path
from random import Random
from typing import Any

import pytest
from google.protobuf import text_format
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from hypothesis import given, settings
from hypothesis import strategies as st

from charonia.config.announce import annotated, described
from charonia.config.complete import complete_from_model
from charonia.config.contradict import check_against_model
from charonia.config.descriptors import enum_of, fields_in_order, is_map, is_message, is_repeated, map_key, map_value
from charonia.config.differences import differences
from charonia.config.findings import errors_in
from charonia.config.json_form import config_from_json, config_to_json_text
from charonia.config.model_config import ConfigOptions, finish_config, load_config
from charonia.config.model_tensor import ModelTensor
from charonia.config.pbtxt import parse_pbtxt
from charonia.config.schema import ModelConfig

# Few words and numbers, so that names meet one another and limits are crossed.
_WORDS = ("", "a", "b", "m", "onnxruntime", "ensemble", "tensorrt_plan", "../x", "/", "é\x1b\n", "0")
_INTEGERS = (0, 1, 2, 8, 2**31 - 1)
_SIGNED = (*_INTEGERS, -1, -2, -(2**31))
_NUMBERS = (0.0, 0.5, -1.0, 2.0, float("inf"), float("nan"))
_SIGNED_TYPES = (FieldDescriptor.CPPTYPE_INT32, FieldDescriptor.CPPTYPE_INT64)
_FLOATS = (FieldDescriptor.CPPTYPE_FLOAT, FieldDescriptor.CPPTYPE_DOUBLE)


def _scalar(random: Random, field: FieldDescriptor) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return random.choice(_WORDS)
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return random.random() < 0.5
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return random.choice([value.number for value in enum_of(field).values])
    if field.cpp_type in _FLOATS:
        return random.choice(_NUMBERS)
    return random.choice(_SIGNED if field.cpp_type in _SIGNED_TYPES else _INTEGERS)


def _fill(random: Random, message: Message) -> None:
    fields = list(fields_in_order(message))
    for field in random.sample(fields, min(len(fields), random.randint(0, 6))):
        rivals = field.containing_oneof.fields if field.containing_oneof is not None else ()
        if not any(rival.name != field.name and message.HasField(rival.name) for rival in rivals):
            _set(random, message, field)


def _set(random: Random, message: Message, field: FieldDescriptor) -> None:
    target: Any = getattr(message, field.name)
    if is_map(field):
        key = _scalar(random, map_key(field))
        if is_message(map_value(field)):
            _fill(random, target[key])
        else:
            target[key] = _scalar(random, map_value(field))
    elif is_message(field) and is_repeated(field):
        for _ in range(random.randint(1, 2)):
            _fill(random, target.add())
    elif is_message(field):
        target.SetInParent()
        _fill(random, target)
    elif is_repeated(field):
        target.extend(_scalar(random, field) for _ in range(random.randint(1, 3)))
    else:
        setattr(message, field.name, _scalar(random, field))


def a_config(seed: int) -> ModelConfig:
    """A seed instead of a strategy for each field: a hundred times as fast, and these configurations don't shrink."""
    config = ModelConfig()
    _fill(Random(seed), config)
    return config


configs = st.integers(0, 2**64).map(a_config)


TENSORS = [ModelTensor("a", "FP32", (-1, 4)), ModelTensor("b", "BYTES", ()), ModelTensor("", "", (1,), optional=True)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = tmp_path_factory.mktemp("any") / "m"
    (model / "1").mkdir(parents=True)
    (model / "1" / "model.onnx").touch()
    return model


@settings(max_examples=150, deadline=None)
@given(configs, st.booleans())
def test_any_configuration_goes_all_the_way(folder: Path, config: ModelConfig, auto_complete: bool) -> None:
    options = ConfigOptions(auto_complete=auto_complete, gpus=(0,))
    (folder / "config.pbtxt").write_text(text_format.MessageToString(config, as_utf8=True), encoding="utf-8")
    loaded = load_config(folder, "m", options)
    completed = complete_from_model(loaded.config, TENSORS, TENSORS, model_file="model.onnx", places=loaded.places)
    finished = finish_config(loaded, completed.config, options, completed.completions)
    found = [*finished.findings, *check_against_model(finished.config, TENSORS, TENSORS, model_file="model.onnx")]
    for finding in found:
        assert str(finding).isprintable()
        assert all(line.startswith("    ") for line in finding.details.split("\n") if line)
    assert all(finding.remedy for finding in errors_in(found)), [each for each in errors_in(found) if not each.remedy]
    assert described(finished.completions).isprintable()
    assert parse_pbtxt(annotated(finished.config, finished.completions), "c").config.ByteSize() > 0
    differences(config, finished.config, "so")


@settings(max_examples=100, deadline=None)
@given(configs)
def test_any_configuration_comes_back_from_text_and_from_json(config: ModelConfig) -> None:
    """NaN is not equal to itself: the bytes are compared."""
    expected = config.SerializeToString(deterministic=True)
    for read in (
        parse_pbtxt(text_format.MessageToString(config), "c"),
        parse_pbtxt(text_format.MessageToString(config, as_one_line=True), "c"),
        config_from_json(config_to_json_text(config)),
    ):
        assert read.config.SerializeToString(deterministic=True) == expected
