"""What the tests of backends share: contexts, batches that are executed at once, and the folder of model builders."""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from charonia.backends.arranging import OutputArranger
from charonia.backends.base import BackendInstance, InstanceSpec, ModelContext, ServerFacts
from charonia.backends.batch import ExecutingBatch
from charonia.config.io import io_specs
from charonia.config.schema import ModelConfig
from charonia.core.clock import MonotonicClock
from charonia.core.log import Log, LogLevel
from charonia.core.request import InferRequest, Reply
from charonia.core.tensor import Array, Tensor

sys.path.insert(0, str(Path(__file__).parents[2] / "models"))

SPEC = InstanceSpec("m_0", "KIND_CPU", "cpu", 1)


class ListLog:
    """Keeps what was logged as `(level, message)`."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def info(self, message: str) -> None:
        self.lines.append(("info", message))

    def warning(self, message: str) -> None:
        self.lines.append(("warning", message))

    def error(self, message: str) -> None:
        self.lines.append(("error", message))

    def verbose(self, message: str, level: int = 1) -> None:
        self.lines.append(("verbose", message))

    def record(self, level: LogLevel, message: str, file: str, line: int) -> None:
        self.lines.append((level.value.lower(), message))

    def of(self, level: str) -> list[str]:
        return [message for found, message in self.lines if found == level]


class Channel:
    """Keeps replies by request."""

    def __init__(self) -> None:
        self.replies: dict[int, Reply] = {}

    def send(self, replies: Sequence[Reply]) -> None:
        for reply in replies:
            assert id(reply.request) not in self.replies, "answered twice"
            self.replies[id(reply.request)] = reply


class Runner:
    """Executes batches on one instance and gives the replies in the order of the requests."""

    def __init__(self, instance: BackendInstance, config: ModelConfig) -> None:
        self.instance = instance
        self.config = config
        self.arranger = OutputArranger(io_specs(config)[1], config.max_batch_size > 0)

    def run(self, *inputs: dict[str, Array], requested: Sequence[tuple[str, ...]] | None = None) -> list[Reply]:
        """One batch with one request for each of `inputs`; its errors are in the replies."""
        wired = [{name: wire_tensor(name, array) for name, array in one.items()} for one in inputs]
        return self.run_tensors(*wired, requested=requested)

    def run_tensors(
        self, *inputs: dict[str, Tensor], requested: Sequence[tuple[str, ...]] | None = None
    ) -> list[Reply]:
        channel = Channel()
        requests = [self._request(one, channel) for one in inputs]
        for request, wanted in zip(requests, requested or [], strict=False):
            request.requested_outputs = wanted
        batch = ExecutingBatch(requests, self.arranger, None, MonotonicClock())
        error = None
        try:
            self.instance.start(batch)
        except Exception as raised:
            error = raised
        batch.close(error, self.config.name)  # type: ignore[arg-type]
        return [channel.replies[id(request)] for request in requests]

    def arrays(self, *inputs: dict[str, Array]) -> list[dict[str, Array]]:
        """As `run`, for batches that must succeed: the outputs as arrays."""
        replies = self.run(*inputs)
        assert [reply.error for reply in replies] == [None] * len(inputs)
        return [{tensor.name: tensor.numpy() for tensor in reply.outputs} for reply in replies]

    def _request(self, tensors: dict[str, Tensor], channel: Channel) -> InferRequest:
        request = InferRequest(self.config.name, -1, tensors, channel, 0)
        if self.config.max_batch_size and tensors:
            request.batch_size = next(iter(tensors.values())).shape[0]
        return request


def wire_tensor(name: str, array: Array) -> Tensor:
    """As the wire gives tensors: read-only bytes."""
    made = Tensor.from_numpy(name, np.ascontiguousarray(array).reshape(array.shape))
    if made.datatype != "BYTES":
        data = array.tobytes()
        made.buffer = type(made.buffer)(data, len(data), owned=True)  # type: ignore[call-arg]
    return made


@pytest.fixture
def log() -> ListLog:
    return ListLog()


@pytest.fixture
def context_for(tmp_path: Path, log: Log) -> Callable[..., ModelContext]:
    """`context_for(config, **backend_config)`: a context whose version folder is `<tmp>/<name>/1`."""

    def make(config: ModelConfig, **backend_config: str) -> ModelContext:
        folder = tmp_path / config.name
        (folder / "1").mkdir(parents=True, exist_ok=True)
        settings = {key.replace("_", "-") if key.startswith("default") else key: v for key, v in backend_config.items()}
        return ModelContext(config.name, 1, config, folder, folder / "1", settings, ServerFacts(log=log))

    return make


@pytest.fixture
def runner_of() -> Iterator[Callable[[BackendInstance, ModelConfig], Runner]]:
    """Makes runners; closes their instances after the test."""
    made: list[Runner] = []

    def make(instance: BackendInstance, config: ModelConfig) -> Runner:
        made.append(Runner(instance, config))
        return made[-1]

    yield make
    for runner in made:
        runner.instance.close()


@pytest.fixture
def spec() -> InstanceSpec:
    return SPEC
