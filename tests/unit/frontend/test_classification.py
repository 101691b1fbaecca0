"""Outputs as classes: order, form and shape of the answer."""

import numpy as np
import pytest

from charonia.core.datatypes import DATATYPES
from charonia.core.errors import InvalidArgumentError
from charonia.core.request import Reply
from charonia.core.tensor import Tensor
from charonia.frontend.classification import ClassifyingChannel, classes
from charonia.testing.requests import KeptReplies, make_request

LABELS = ["cat", "dog", "bird", "fish"]


def texts(tensor):
    return [element.decode() for element in tensor.numpy().ravel()]


def test_the_largest_first_with_index_and_label_for_each_row():
    scores = Tensor.from_numpy("Y", np.array([[0.1, 0.9, 0.5, 0.2], [4, 3, 2, 1]], np.float32))
    answer = classes(scores, 2, LABELS, batched=True)
    assert answer.datatype == "BYTES"
    assert answer.shape == (2, 2)
    assert texts(answer) == ["0.900000:1:dog", "0.500000:2:bird", "4.000000:0:cat", "3.000000:1:dog"]


def test_whole_numbers_have_no_fraction_and_missing_labels_are_left_out():
    answer = classes(Tensor.from_numpy("Z", np.array([1, 200, 8], np.uint8)), 2, [], batched=False)
    assert answer.shape == (2,)
    assert texts(answer) == ["200:1", "8:2"]


def test_more_classes_than_elements_are_all_elements():
    answer = classes(Tensor.from_numpy("Z", np.array([[1.0, 2.0]], np.float32)), 9, LABELS, batched=True)
    assert answer.shape == (1, 2)


def test_of_equal_values_the_first_index_comes_first():
    answer = classes(Tensor.from_numpy("Z", np.zeros((1, 4), np.float32)), 2, [], batched=True)
    assert texts(answer) == ["0.000000:0", "0.000000:1"]


@pytest.mark.parametrize("datatype", ["FP32", "FP64", "FP16", "BF16"])
def test_what_is_no_number_comes_last(datatype):
    row = np.array([[1.0, np.nan, np.inf, -np.inf, np.nan]]).astype(DATATYPES[datatype].numpy)
    answer = classes(Tensor.from_numpy("Z", row), 9, [], batched=True)
    assert [text.split(":")[1] for text in texts(answer)[:3]] == ["2", "0", "3"]
    assert texts(answer)[0] == "inf:2"


@pytest.mark.parametrize("shape", [(0, 4), (2, 0), (0, 0)])
def test_nothing_has_no_classes(shape):
    answer = classes(Tensor.from_numpy("Z", np.zeros(shape, np.float32)), 3, [], batched=True)
    assert answer.shape == (shape[0], min(3, shape[1]))
    assert texts(answer) == []


def test_a_row_of_several_dimensions_is_one_row():
    values = np.arange(12, dtype=np.int64).reshape(2, 2, 3)
    answer = classes(Tensor.from_numpy("Z", values), 2, [], batched=True)
    assert (answer.shape, texts(answer)) == ((2, 2), ["5:5", "4:4", "11:5", "10:4"])


def test_text_has_no_classes():
    with pytest.raises(
        InvalidArgumentError, match="class result not available for output due to unsupported type 'BYTES': output 'S'"
    ):
        classes(Tensor.from_numpy("S", np.array([b"a"], np.object_)), 1, [], batched=False)


def test_a_row_has_a_limit_and_a_batch_has_none():
    row = np.zeros((1, 1_000_001), np.uint8)
    with pytest.raises(InvalidArgumentError, match=r"classification output tensor too large: output 'L' has 1000001"):
        classes(Tensor.from_numpy("L", row), 1, [], batched=True)
    assert classes(Tensor.from_numpy("L", row.reshape(-1, 1)[:2]), 1, [], batched=True).shape == (2, 1)
    with pytest.raises(InvalidArgumentError, match="too large"):
        classes(Tensor.from_numpy("L", row.reshape(-1, 1)), 1, [], batched=False)
    assert classes(Tensor.from_numpy("L", np.zeros((2, 600_000), np.uint8)), 1, [], batched=True).shape == (2, 1)


def test_the_channel_changes_only_the_outputs_asked_for():
    kept = KeptReplies()
    channel = ClassifyingChannel(kept, {"Y": 1}, lambda request, output: LABELS, lambda request: True)
    request = make_request(kept)
    outputs = [Tensor.from_numpy(name, np.array([[1.0, 3.0]], np.float32)) for name in ("Y", "Z")]
    channel.send([Reply(request, outputs)])
    first, second = kept.of(request).outputs
    assert texts(first) == ["3.000000:1:dog"]
    assert second.datatype == "FP32"


def test_what_has_no_classes_is_an_error_of_that_request():
    kept = KeptReplies()
    channel = ClassifyingChannel(kept, {"S": 1}, lambda request, output: (), lambda request: False)
    request = make_request(kept)
    channel.send([Reply(request, [Tensor.from_numpy("S", np.array([b"a"], np.object_))])])
    assert "class result not available" in kept.error_of(request)
