"""What an exchange with a Python model costs, without a front end: microseconds of CPU and of time per request.

    python benchmarks/python_link.py [--seconds 2] [--form isolated|inline]

CPU counts the server's side and the model's process together. The model's own work is in it: `model alone` is the same
`execute` called in a bare loop on requests that are made once.
"""

import argparse
import os
import resource
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace

import numpy as np

from charonia.backends.base import InstanceSpec, ModelContext, ServerFacts
from charonia.backends.python import PythonBackend
from charonia.backends.python.child.messages import InferenceRequest
from charonia.backends.python.child.model import Model
from charonia.backends.python.child.pb_utils import MODULE_NAME, build_module
from charonia.backends.python.child.tensor import Tensor as ModelTensor
from charonia.config.schema import ModelConfig
from charonia.core.errors import CharoniaError
from charonia.core.request import InferRequest, Reply
from charonia.core.tensor import Tensor
from charonia.testing.requests import KeptReplies

ADD_SUB = """
import json
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        config = json.loads(args["model_config"])
        self.dtype = pb_utils.triton_string_to_numpy(pb_utils.get_output_config_by_name(config, "OUTPUT0")["data_type"])

    def execute(self, requests):
        responses = []
        for request in requests:
            a = pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()
            b = pb_utils.get_input_tensor_by_name(request, "INPUT1").as_numpy()
            outputs = [
                pb_utils.Tensor("OUTPUT0", (a + b).astype(self.dtype)),
                pb_utils.Tensor("OUTPUT1", (a - b).astype(self.dtype)),
            ]
            responses.append(pb_utils.InferenceResponse(output_tensors=outputs))
        return responses
"""

ECHO = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [
            pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", %s)])
            for request in requests
        ]
"""
STREAM = """
import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for number in range(100):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", np.array([number], np.float32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""

CALLS = """
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        responses = []
        for request in requests:
            for _ in range(10):
                inner = pb_utils.InferenceRequest(
                    model_name="other", requested_output_names=["OUTPUT0"], inputs=request.inputs()
                )
                response = inner.exec()
            responses.append(pb_utils.InferenceResponse(response.output_tensors()))
        return responses
"""
_INPUT = 'pb_utils.get_input_tensor_by_name(request, "INPUT0").as_numpy()'


class CountingBatch:
    """Takes answers and reads every output once, as the wire does for small ones."""

    def __init__(self, requests: list[InferRequest]) -> None:
        self.requests = requests
        self.answered = 0
        self.ended = threading.Event()
        self._open = len(requests)

    def inputs_ready(self) -> None: ...
    def outputs_ready(self) -> None: ...
    def flush(self) -> None: ...
    def hold(self) -> None: ...
    def ready_for_next(self) -> None: ...

    def respond(self, request: object, outputs: object, parameters: object = None, final: bool = True) -> None:
        self.answered += 1
        if final:
            self._end()

    def end(self, request: object) -> None:
        self._end()

    def fail(self, request: InferRequest, error: CharoniaError, final: bool = True) -> None:
        raise error

    def _end(self) -> None:
        self._open -= 1
        if not self._open:
            self.ended.set()


class EchoingModels:
    """A Submitter that answers every call at once with its own inputs."""

    def submit(self, request: InferRequest) -> None:
        request.settle()
        outputs = [
            Tensor("OUTPUT0", tensor.datatype, tensor.shape, tensor.buffer) for tensor in request.inputs.values()
        ]
        request.channel.send((Reply(request, outputs),))

    submit_waiting = submit


def build(folder: Path, code: str, config: ModelConfig, form: str) -> ModelContext:
    version = folder / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(code)
    config.parameters["execution"].string_value = form
    return ModelContext(config.name, 1, config, folder, version, {}, ServerFacts(submitter=EchoingModels()))


def config(name: str, datatype: str, dims: list[int], tensors: int, max_batch_size: int) -> ModelConfig:
    made = ModelConfig(name=name, backend="python", max_batch_size=max_batch_size)
    for number in range(tensors):
        made.input.add(name=f"INPUT{number}", data_type=datatype, dims=dims)
        made.output.add(name=f"OUTPUT{number}", data_type=datatype, dims=dims)
    return made


def measure(
    label: str, context: ModelContext, inputs: dict[str, np.ndarray], batch_size: int, seconds: float, each: int = 1
) -> None:
    """`each`: how many responses (or calls) a request has; figures are for one of them."""
    backend = PythonBackend()
    model = backend.load(context)
    instance = model.create_instance(InstanceSpec("bench_0", "KIND_CPU", "cpu", 1))
    requests = [
        InferRequest(
            "m",
            -1,
            {name: Tensor.from_numpy(name, array, owned=True) for name, array in inputs.items()},
            KeptReplies(),
            0,
        )
        for _ in range(batch_size)
    ]

    def exchange() -> None:
        batch = CountingBatch(requests)
        instance.start(batch)
        assert batch.ended.wait(60)

    wall, cpu, count = _time(exchange, seconds, _child_pid(instance))
    _print(label, batch_size * each, wall, cpu, count)
    instance.close()
    model.close()
    backend.close()


def measure_alone(code: str, inputs: dict[str, np.ndarray], batch_size: int, seconds: float) -> None:
    """The model's code in a bare loop."""
    module = ModuleType("model")
    sys.modules[MODULE_NAME] = build_module(SimpleNamespace(model_dir=""))
    exec(code, module.__dict__)
    model = Model("bench_0", module)
    model.initialize({"model_config": '{"output": [{"name": "OUTPUT0", "data_type": "TYPE_FP32"}]}'})
    tensors = [ModelTensor(name, array) for name, array in inputs.items()]
    requests = [
        InferenceRequest(model_name="m", requested_output_names=["OUTPUT0"], inputs=tensors) for _ in range(batch_size)
    ]
    wall, cpu, count = _time(lambda: model.execute(requests), seconds, None)
    _print("model alone", batch_size, wall, cpu, count)


def _child_pid(instance: object) -> int | None:
    life = getattr(instance, "_life", None)
    return None if life is None else int(life.child.popen.pid)


def _time(run: Callable[[], object], seconds: float, pid: int | None) -> tuple[float, float, int]:
    """(wall seconds a run, CPU seconds a run of this process and the child's, runs); the median of five rounds."""
    for _ in range(50):
        run()
    rounds = []
    total = 0
    for _ in range(5):
        began, cpu_before, count = time.perf_counter(), _cpu(pid), 0
        while time.perf_counter() - began < seconds / 5:
            run()
            count += 1
        rounds.append(((time.perf_counter() - began) / count, (_cpu(pid) - cpu_before) / count))
        total += count
    return statistics.median(r[0] for r in rounds), statistics.median(r[1] for r in rounds), total


def _cpu(pid: int | None) -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    spent = own.ru_utime + own.ru_stime
    if pid is not None:
        # Nanoseconds on a CPU, from the scheduler, over all threads: /proc/<pid>/stat only counts hundredths.
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/schedstat") as file:
                spent += int(file.read().split()[0]) / 1e9
    return spent


def _print(label: str, batch_size: int, wall: float, cpu: float, count: int) -> None:
    print(
        f"{label:34s} batch {batch_size:3d}: {wall / batch_size * 1e6:9.1f} µs a request,"
        f" {cpu / batch_size * 1e6:9.1f} µs of CPU, {count} batches",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--form", default="isolated", choices=("isolated", "inline"))
    options = parser.parse_args()
    row = np.arange(16, dtype=np.float32).reshape(1, 16)
    pair = {"INPUT0": row, "INPUT1": row}
    large = {"INPUT0": np.arange(1_000_000, dtype=np.float32)}
    strings = {"INPUT0": np.array([b"x" * (50 + (i * 37) % 451) for i in range(1000)], np.object_)}
    with tempfile.TemporaryDirectory() as folder:
        for batch_size in (1, 8, 32):
            context = build(
                Path(folder) / f"add{batch_size}", ADD_SUB, config("m", "TYPE_FP32", [16], 2, 64), options.form
            )
            measure_alone(ADD_SUB, pair, batch_size, options.seconds)
            measure("add/sub FP32[16]", context, pair, batch_size, options.seconds)
        small = {"INPUT0": row[0]}
        for label, code, each in (("100 small responses", STREAM, 100), ("10 calls of another model", CALLS, 10)):
            made = config("m", "TYPE_FP32", [-1], 1, 0)
            made.model_transaction_policy.decoupled = code is STREAM
            context = build(Path(folder) / label.replace(" ", "_"), code, made, options.form)
            measure(label, context, small, 1, options.seconds, each)
        for label, code, inputs, datatype in (
            ("1 M floats, echo", ECHO % _INPUT, large, "TYPE_FP32"),
            ("1 M floats, new array", ECHO % (_INPUT + " * 2"), large, "TYPE_FP32"),
            ("1,000 strings, echo", ECHO % _INPUT, strings, "TYPE_STRING"),
            ("1,000 strings, new array", ECHO % (_INPUT + "[::-1]"), strings, "TYPE_STRING"),
        ):
            name = label.replace(" ", "_").replace(",", "")
            context = build(Path(folder) / name, code, config("m", datatype, [-1], 1, 0), options.form)
            measure(label, context, inputs, 1, options.seconds)


if __name__ == "__main__":
    main()
