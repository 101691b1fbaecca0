"""Sends recordings as live streams to voice_activity, side by side: python -m examples.voice.client A.wav B.wav

    --url HOST:PORT    the server's gRPC port (localhost:8001)

Recordings are WAV files of 16 kHz, one channel, 16 bits. Prints when somebody speaks in which.
"""

import argparse
import wave
from collections.abc import Iterator, Sequence
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
import tritonclient.grpc as grpcclient
from numpy.typing import NDArray

from examples.voice.layout import RATE_HZ, SAMPLES

Sound = NDArray[np.float32]
THRESHOLD = 0.5


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recordings", nargs="+", type=Path, metavar="WAV")
    parser.add_argument("--url", default="localhost:8001")
    options = parser.parse_args()
    with grpcclient.InferenceServerClient(options.url) as client:
        probabilities = listen(client, [read_wav(path) for path in options.recordings])
    for path, row in zip(options.recordings, probabilities, strict=True):
        spoken = ", ".join(f"{start:.2f}-{end:.2f} s" for start, end in segments(row))
        print(f"{path}: {spoken or 'nobody speaks'}")


def listen(client: grpcclient.InferenceServerClient, sounds: Sequence[Sound], first_id: int = 1) -> list[list[float]]:
    """The probability of speech in each chunk of each sound. Sound i is sequence `first_id` + i; all are sent at once,
    a chunk of each in turn, over one gRPC stream."""
    answers: Queue[tuple[Any, Any]] = Queue()
    client.start_stream(lambda result, error: answers.put((result, error)))
    rows = [list(chunks(sound)) for sound in sounds]
    for at in range(max(map(len, rows))):
        for index, row in enumerate(rows):
            if at < len(row):
                client.async_stream_infer(
                    "voice_activity",
                    [_input(row[at])],
                    request_id=f"{index} {at}",
                    sequence_id=first_id + index,
                    sequence_start=at == 0,
                    sequence_end=at == len(row) - 1,
                )
    found = [[0.0] * len(row) for row in rows]
    for _ in range(sum(map(len, rows))):
        result, error = answers.get()
        if error is not None:
            raise error
        index, at = map(int, result.get_response().id.split())
        found[index][at] = result.as_numpy("speech").item()
    client.stop_stream()
    return found


def chunks(sound: Sound) -> Iterator[Sound]:
    """Parts of 512 samples, [1, 512] each; the last one filled up with silence. At least one."""
    count = max(1, -(-len(sound) // SAMPLES))
    padded = np.zeros(count * SAMPLES, np.float32)
    padded[: len(sound)] = sound
    yield from padded.reshape(count, 1, SAMPLES)


def segments(probabilities: Sequence[float]) -> Iterator[tuple[float, float]]:
    """Beginning and end, in seconds, of each run of chunks with speech."""
    start = None
    for at, probability in enumerate([*probabilities, 0.0]):
        if probability >= THRESHOLD and start is None:
            start = at
        elif probability < THRESHOLD and start is not None:
            yield start * SAMPLES / RATE_HZ, at * SAMPLES / RATE_HZ
            start = None


def read_wav(path: Path) -> Sound:
    with wave.open(str(path)) as file:
        form = (file.getframerate(), file.getnchannels(), file.getsampwidth())
        if form != (RATE_HZ, 1, 2):
            raise SystemExit(f"{path}: expected 16000 Hz, 1 channel, 2 bytes a sample, got {form}")
        return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768


def _input(chunk: Sound) -> grpcclient.InferInput:
    made = grpcclient.InferInput("audio", list(chunk.shape), "FP32")
    made.set_data_from_numpy(chunk)
    return made


if __name__ == "__main__":
    main()
