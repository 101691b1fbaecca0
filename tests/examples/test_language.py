"""The language model, token by token, in every form: equal to a bare loop over the same network."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime
import pytest

from charonia.api import Server
from examples.language.client import FORMS, over_grpc, over_http
from examples.language.layout import lay_out
from examples.language.text import END, Table, window

PROMPTS = ["Hear", "The horn", "héé", "x", "a 🐚 b"]
MOST = 20


@pytest.fixture(scope="module")
def repository(tmp_path_factory):
    return lay_out(tmp_path_factory.mktemp("language") / "models")


@pytest.fixture(scope="module")
def server(repository):
    with Server(repository, http_port=0, grpc_port=0) as running:
        yield running


@pytest.fixture(scope="module")
def expected(repository):
    """What a loop over the network says, by prompt, in pieces."""
    session = onnxruntime.InferenceSession(repository / "tiny_lm" / "1" / "model.onnx")
    table = Table(repository / "generate" / "1")

    def generate(text):
        tokens, pieces = table.tokens(text.encode()), []
        for _ in range(MOST):
            (logits,) = session.run(None, {"tokens": np.array([window(tokens)], np.int64)})
            tokens.append(int(logits[0].argmax()))
            if tokens[-1] == END:
                break
            pieces.append(table.pieces[tokens[-1]])
        return pieces

    return {text: generate(text) for text in PROMPTS}


def grpc_of(server):
    return f"localhost:{server.ports['grpc']}"


def http_of(server):
    return f"localhost:{server.ports['http']}"


def test_the_text_has_characters_that_come_in_two_pieces(expected):
    assert any(piece.endswith(b"\xf0\x9f\x90") for pieces in expected.values() for piece in pieces)


@pytest.mark.parametrize("model", FORMS)
@pytest.mark.parametrize("text", PROMPTS)
def test_each_piece_over_grpc(server, expected, model, text):
    assert list(over_grpc(grpc_of(server), model, text, MOST)) == expected[text]


@pytest.mark.parametrize("model", FORMS)
@pytest.mark.parametrize("text", PROMPTS)
def test_whole_characters_over_http(server, expected, model, text):
    said = list(over_http(http_of(server), model, text, MOST))
    assert "".join(said) == b"".join(expected[text]).decode()
    assert "�" not in "".join(said)


@pytest.mark.parametrize("model", FORMS)
def test_many_at_once_say_what_each_says_alone(server, expected, model):
    texts = PROMPTS * 6
    with ThreadPoolExecutor(len(texts)) as threads:
        over = [over_grpc, over_http]
        said = list(
            threads.map(
                lambda each: list(over[each[0] % 2]((grpc_of, http_of)[each[0] % 2](server), model, each[1], MOST)),
                enumerate(texts),
            )
        )
    for index, (text, pieces) in enumerate(zip(texts, said, strict=True)):
        if index % 2 == 0:
            assert pieces == expected[text]
        else:
            assert "".join(pieces) == b"".join(expected[text]).decode()


@pytest.mark.parametrize("model", FORMS)
def test_pieces_in_the_same_process(server, expected, model):
    shape = [1, 1] if model == "iterative" else [1]
    prompt = np.array([b"Hear"], np.object_).reshape(shape)
    most = np.array([MOST], np.int32).reshape(shape)
    answers = server.model(model).stream(text_input=prompt, max_tokens=most)
    assert [answer["text_output"].item() for answer in answers] == expected["Hear"]
