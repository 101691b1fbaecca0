"""Serving small Python models without a server: write the code, get an instance, run batches."""

import os
import textwrap
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from charonia.backends.base import InstanceSpec, ModelContext, ServerFacts
from charonia.backends.python import PythonBackend
from charonia.backends.python.backend import PythonModel
from charonia.config.schema import ModelConfig
from charonia.core.log import LogLevel
from charonia.observe.custom_metrics import CustomMetrics
from charonia.testing.batch import KeptBatch, make_batch

FORMS = ("isolated", "inline")
HEAD = "import json, os, sys\nimport numpy as np\nimport triton_python_backend_utils as pb_utils\n"


class KeptLog:
    """A Log that keeps its messages; `wait_for` waits until one contains a text."""

    def __init__(self) -> None:
        self.messages: list[str] = []
        self.records: list[tuple[str, str, str]] = []
        self._changed = threading.Condition()

    def info(self, message: str) -> None:
        with self._changed:
            self.messages.append(message)
            self._changed.notify_all()

    warning = error = info

    def verbose(self, message: str, level: int = 1) -> None:
        self.info(message)

    def record(self, level: LogLevel, message: str, file: str, line: int) -> None:
        self.records.append((str(level), message, file))
        self.info(message)

    def wait_for(self, text: str) -> str:
        def found() -> str | None:
            return next((message for message in self.messages if text in message), None)

        with self._changed:
            assert self._changed.wait_for(found, 20), f"{text!r} not among {self.messages}"
            message = found()
            assert message is not None
            return message


class Served:
    """One model with one instance."""

    def __init__(self, backend: PythonBackend, context: ModelContext, instances: int) -> None:
        self.backend = backend
        self.context = context
        self.model: PythonModel = backend.load(context)
        self.instances = [
            self.model.create_instance(InstanceSpec(f"{context.name}_{number}", "KIND_CPU", "cpu", 1))
            for number in range(instances)
        ]
        self.instance: Any = self.instances[0] if instances else None

    def run(self, *rows: Mapping[str, Any], **options: Any) -> KeptBatch:
        return make_batch(*rows, **options).run(self.instance)

    def call(self, **inputs: Any) -> dict[str, Any]:
        """One request, its outputs."""
        return self.run(inputs).outputs()

    def unload(self) -> None:
        for instance in self.instances:
            instance.close()
        self.model.close()


class Workshop:
    """Makes models in a temporary folder and serves them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.backend = PythonBackend()
        self.log = KeptLog()
        self.metrics = CustomMetrics()
        self._served: list[Served] = []

    def write(self, code: str, name: str = "m", version: int = 1, files: Mapping[str, str] | None = None) -> Path:
        folder = self.folder / name / str(version)
        folder.mkdir(parents=True, exist_ok=True)
        for path, text in {"model.py": HEAD + textwrap.dedent(code), **(files or {})}.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_text(textwrap.dedent(text))
        return folder

    def context(
        self,
        name: str = "m",
        version: int = 1,
        *,
        form: str = "isolated",
        inputs: str = "X:TYPE_FP32:-1",
        outputs: str = "Y:TYPE_FP32:-1",
        max_batch_size: int = 0,
        parameters: Mapping[str, str] | None = None,
        settings: Mapping[str, str] | None = None,
        exit_timeout_s: float = 10.0,
        decoupled: bool = False,
    ) -> ModelContext:
        """`inputs` and `outputs`: `NAME:TYPE:dim,dim` separated by spaces."""
        config = ModelConfig(name=name, backend="python", max_batch_size=max_batch_size)
        for text, fields in ((inputs, config.input), (outputs, config.output)):
            for item in text.split():
                tensor, kind, dims = item.split(":")
                fields.add(name=tensor, data_type=kind, dims=[int(dim) for dim in dims.split(",") if dim])
        for key, value in {"execution": form, **(parameters or {})}.items():
            config.parameters[key].string_value = value
        config.model_transaction_policy.decoupled = decoupled
        folder = self.folder / name
        facts = ServerFacts(log=self.log, custom_metrics=self.metrics, exit_timeout_s=exit_timeout_s)
        return ModelContext(name, version, config, folder, folder / str(version), settings or {}, facts)

    def serve(self, code: str, *, instances: int = 1, files: Mapping[str, str] | None = None, **options: Any) -> Served:
        self.write(code, options.get("name", "m"), options.get("version", 1), files)
        served = Served(self.backend, self.context(**options), instances)
        self._served.append(served)
        return served

    def close(self) -> None:
        self.backend.close()


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    made = Workshop(tmp_path)
    yield made
    made.close()


@pytest.fixture(params=FORMS)
def form(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def serve(workshop: Workshop, form: str) -> Callable[..., Served]:
    """Serve a model in one form and then in the other."""

    def make(code: str, **options: Any) -> Served:
        return workshop.serve(code, form=form, **options)

    return make


@pytest.fixture
def shared_memory_files() -> Callable[[], set[str]]:
    """What lies in /dev/shm, but for what a real Triton on this machine has there."""

    def look() -> set[str]:
        return {name for name in os.listdir("/dev/shm") if not name.startswith("triton_")}

    return look
