"""Responses of generate as JSON."""

import json
import math

import ml_dtypes
import numpy as np
import pytest

from charonia.core.errors import InvalidArgumentError
from charonia.core.request import Reply
from charonia.core.tensor import Tensor
from charonia.frontend.generate.answer import AnswerWriter
from charonia.testing.requests import KeptReplies, make_request


def request_of(**options):
    request = make_request(KeptReplies(), "m", **options)
    request.version = "3"
    return request


def written(array, *, final=True, parameters=None, writer=None, **options):
    request = request_of(**options)
    writer = writer or AnswerWriter(1 << 20, holds_back=True)
    outputs = [Tensor.from_numpy("OUT", np.asarray(array))]
    return writer.response(Reply(request, outputs, None, parameters or {}, final)).decode()


def out(array, **options):
    return json.loads(written(array, **options))["OUT"]


def test_members_are_in_the_order_of_their_names():
    assert written([1], id="q") == '{"OUT":1,"id":"q","model_name":"m","model_version":"3"}'
    assert written([1], parameters={"zeta": 0.5, "alpha": True}) == (
        '{"OUT":1,"alpha":true,"model_name":"m","model_version":"3","zeta":0.5}'
    )


@pytest.mark.parametrize(
    ("array", "value"),
    [
        (np.array(5, np.int32), 5),
        (np.array([[[5]]], np.int8), 5),
        (np.array([[1, 2], [3, 4]], np.int16), [1, 2, 3, 4]),
        (np.zeros((1, 0), np.float32), []),
        (np.array([2**64 - 1], np.uint64), 2**64 - 1),
        (np.array([-(2**63), 2**53 + 1], np.int64), [-(2**63), 2**53 + 1]),
        (np.array([True, False]), [True, False]),
        (np.array([0.1], np.float32), 0.10000000149011612),
        (np.array([0.1], np.float64), 0.1),
        (np.array([0.5, -0.0], np.float16), [0.5, -0.0]),
        (np.array([1.5], ml_dtypes.bfloat16), 1.5),
        (np.array(["a"], np.object_), "a"),
        (np.array(["a", "", "b\n\0"], np.object_), ["a", "", "b\n\0"]),
    ],
)
def test_one_element_stands_alone_and_others_in_a_flat_list(array, value):
    assert repr(out(array)) == repr(value)


def test_what_json_has_no_numbers_for():
    nan, inf, minus = out(np.array([np.nan, np.inf, -np.inf], np.float32))
    assert math.isnan(nan)
    assert (inf, minus) == (math.inf, -math.inf)
    assert '"OUT":[NaN,Infinity,-Infinity]' in written(np.array([np.nan, np.inf, -np.inf]))


def test_what_is_too_large_is_told():
    with pytest.raises(InvalidArgumentError, match=r"output 'OUT' of model 'm' has 8 bytes, at most 7"):
        written(np.zeros(8, np.uint8), writer=AnswerWriter(7, holds_back=True))


def pieces(*parts, holds_back=True):
    """The texts that a client reads when a model sends these bytes, one response each; the end comes alone."""
    writer = AnswerWriter(1 << 20, holds_back=holds_back)
    texts = [out(np.array([part], np.object_), final=False, writer=writer) for part in parts]
    rest = writer.rest(request_of())
    return texts, None if rest is None else json.loads(rest)["OUT"]


def test_a_character_is_held_back_until_it_is_whole():
    raw = "a😀b".encode()
    texts, rest = pieces(*(raw[at : at + 1] for at in range(len(raw))))
    assert (texts, rest) == (["a", "", "", "", "😀", "b"], None)


def test_every_cut_of_a_text_gives_the_text():
    raw = "hé你😀".encode()
    for at in range(len(raw) + 1):
        texts, rest = pieces(raw[:at], raw[at:])
        assert ("".join(texts), rest) == ("hé你😀", None)


def test_what_never_becomes_whole_is_replaced():
    assert pieces(b"a\xf0\x9f", b"b") == (["a", "\ufffdb"], None)
    assert pieces(b"a\xff") == (["a\ufffd"], None)
    assert pieces(b"a\xf0\x9f") == (["a"], "\ufffd")


def test_the_end_of_a_text_is_known_when_the_response_is_the_last_one():
    assert out(np.array([b"a\xf0\x9f"], np.object_)) == "a\ufffd"


def test_a_single_answer_holds_nothing_back():
    assert pieces(b"a\xf0\x9f", holds_back=False) == (["a\ufffd"], None)


def test_elements_are_texts_of_their_own():
    writer = AnswerWriter(1 << 20, holds_back=True)
    texts = [
        out(np.array(parts, np.object_), final=False, writer=writer)
        for parts in ([b"\xc3", b"x"], [b"\xa9", b"\xc3"], [b"", b"\xa4", b"new"])
    ]
    assert texts == [["", "x"], ["é", ""], ["", "ä", "new"]]
