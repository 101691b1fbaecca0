"""Silero's voice activity detector: each stream of sound is a sequence, and the server remembers for it."""

import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.grpc as grpcclient

from charonia.api import Server
from examples.voice import client as voice
from examples.voice.layout import CONTEXT_SAMPLES, RATE_HZ, SAMPLES, lay_out, silero_model
from tests.every_door.doors import DOORS
from tests.every_door.served import ask
from tests.examples.silero_reference import probabilities
from tests.models.repository import write_config

STREAMS = 50
PLAIN = """
    backend: "onnxruntime"
    max_batch_size: 0
    input [ { name: "input" data_type: TYPE_FP32 dims: [ 1, 576 ] }, { name: "sr" data_type: TYPE_INT64 dims: [ 1 ] } ]
    output [ { name: "output" data_type: TYPE_FP32 dims: [ 1, 1 ] } ]
    sequence_batching {
      oldest { max_candidate_sequences: 64 }
      state [ { input_name: "state" output_name: "stateN" data_type: TYPE_FP32 dims: [ 2, 1, 128 ] } ]
    }
"""


def sound(seed):
    """Something between a voice and noise, of its own length and loudness: buzzing with formants, and pauses."""
    random = np.random.default_rng(seed)
    times = np.arange(int(random.integers(1, 24) * SAMPLES - seed)) / RATE_HZ
    pitch = np.cumsum(random.uniform(90, 220) * (1 + 0.1 * np.sin(times * random.uniform(3, 9)))) / RATE_HZ
    voice = sum(np.sin(2 * np.pi * n * pitch) / n for n in range(1, 12))
    loud = np.sin(2 * np.pi * times * random.uniform(1, 4)) > random.uniform(-0.9, 0.3)
    return (random.uniform(0.02, 0.3) * voice * loud + 0.01 * random.standard_normal(len(times))).astype(np.float32)


@pytest.fixture(scope="module")
def sounds():
    return [sound(seed) for seed in range(STREAMS)]


@pytest.fixture(scope="module")
def expected(sounds):
    return [probabilities(each) for each in sounds]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    repository = lay_out(tmp_path_factory.mktemp("voice") / "models")
    (repository / "plain" / "1").mkdir(parents=True)
    shutil.copyfile(silero_model(), repository / "plain" / "1" / "model.onnx")
    write_config(repository, "plain", PLAIN)
    with Server(repository, http_port=0, grpc_port=0) as running:
        yield running


def same(found, expected):
    assert [len(row) for row in found] == [len(row) for row in expected]
    for row, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(row, wanted, atol=2e-6)


def side_by_side(send, rows):
    """Chunk n of every row, then chunk n + 1; send(index, chunk, sequence_start=, sequence_end=) → probability."""
    found = [[] for _ in rows]
    with ThreadPoolExecutor(8) as pool:
        for at in range(max(map(len, rows))):
            alive = [index for index, row in enumerate(rows) if at < len(row)]
            sent = [
                pool.submit(
                    send, index, rows[index][at], sequence_start=at == 0, sequence_end=at == len(rows[index]) - 1
                )
                for index in alive
            ]
            for index, future in zip(alive, sent, strict=True):
                found[index].append(future.result())
    return found


def test_the_sounds_are_not_all_alike(expected):
    every = np.concatenate(expected)
    assert len(every) > 400
    assert every.min() < 0.01
    assert every.max() > 0.5


def test_interleaved_on_one_grpc_stream(server, sounds, expected):
    with grpcclient.InferenceServerClient(f"localhost:{server.ports['grpc']}") as client:
        same(voice.listen(client, sounds), expected)


@pytest.mark.parametrize("door", DOORS)
def test_interleaved_through_every_door(server, sounds, expected, door):
    def send(index, chunk, **flags):
        flags["sequence_id"] = f"stream {index} by {door}"
        return ask(door, server, "voice_activity", {"audio": chunk}, **flags)["speech"].item()

    same(side_by_side(send, [list(voice.chunks(each)) for each in sounds]), expected)


@pytest.mark.parametrize("door", ["grpc", "http-binary"])
def test_the_file_of_the_package_as_it_is(server, sounds, expected, door):
    """Its state has the batch second, so it does not batch; clients put the end of the last chunk before each chunk."""

    def send(index, chunk, **flags):
        inputs = {"input": chunk[None], "sr": np.array([RATE_HZ])}
        return ask(door, server, "plain", inputs, sequence_id=index + 1, **flags)["output"].item()

    rows = [[chunk[0] for chunk in voice.chunks(each)] for each in sounds]
    before = [[np.zeros(SAMPLES, np.float32), *row] for row in rows]
    joined = [
        [np.concatenate([last[-CONTEXT_SAMPLES:], chunk]) for last, chunk in zip(lasts, row, strict=False)]
        for lasts, row in zip(before, rows, strict=True)
    ]
    same(side_by_side(send, joined), expected)


def test_a_stream_that_starts_again_has_forgotten(server, sounds, expected):
    with grpcclient.InferenceServerClient(f"localhost:{server.ports['grpc']}") as client:
        for _ in range(2):
            same(voice.listen(client, sounds[:3], first_id=900), expected[:3])
