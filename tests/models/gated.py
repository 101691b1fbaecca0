"""A Python model that says what it was given and then waits for the test's word: busy instances without sleeping."""

import json
import os
import select
from pathlib import Path
from textwrap import dedent

from tests.models.repository import write_python_model

# How long a test waits for what must happen; it is the failing test that takes so long, never the passing one.
PATIENCE_S = 20.0
_FOR_GOOD = 2000

CODE = """
    import json
    import os
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def initialize(self, args):
            config = json.loads(args["model_config"])
            self.folder = config["parameters"]["gate"]["string_value"]
            self.instance = args["model_instance_name"]
            self.entered = os.open(self.folder + "/entered", os.O_WRONLY)
            self.doors = {}
            if os.path.exists(self.folder + "/start"):
                os.read(os.open(self.folder + "/start", os.O_RDONLY), 1)

        def door(self, value):
            path = f"{self.folder}/go-{value}"
            path = path if os.path.exists(path) else self.folder + "/go"
            if path not in self.doors:
                self.doors[path] = os.open(path, os.O_RDONLY)
            return self.doors[path]

        def execute(self, requests):
            arrays = [pb_utils.get_input_tensor_by_name(request, "IN").as_numpy() for request in requests]
            values = [int(array.ravel()[0]) if array.size else None for array in arrays]
            rows = [len(array) for array in arrays]
            said = {"values": values, "rows": rows, "instance": self.instance, "pid": os.getpid()}
            os.write(self.entered, (json.dumps(said) + "\\n").encode())
            os.read(self.door(values[0]), 1)
            self.cancelled = [request.is_cancelled() for request in requests]
            os.write(self.entered, (json.dumps(said | {"left": True, "cancelled": self.cancelled}) + "\\n").encode())
            return [pb_utils.InferenceResponse([pb_utils.Tensor("OUT", array)]) for array in arrays]

        def finalize(self):
            for pipe in (self.entered, *self.doors.values()):
                os.close(pipe)
"""


def readable(pipe: int) -> bool:
    """Whether there is something to read, in time. Not by select: who runs all tests has many descriptors."""
    poll = select.poll()
    poll.register(pipe, select.POLLIN)
    return bool(poll.poll(PATIENCE_S * 1000))


class Gate:
    """The test's side. `IN`'s first value names a request; a door of its own opens for that value alone.

    Args:
        folder: where the pipes are made; both ends are held here, so that neither side waits to open them.
        doors: values that get a door of their own, instead of the common one.
    """

    def __init__(self, folder: Path, doors: tuple[int, ...] = ()) -> None:
        self.folder = folder
        folder.mkdir()
        self._entered = self._pipe("entered")
        self._go: dict[object, int] = {None: self._pipe("go")} | {value: self._pipe(f"go-{value}") for value in doors}
        self._unread = b""
        self.left: list[dict] = []

    def _pipe(self, name: str) -> int:
        os.mkfifo(self.folder / name)
        return os.open(self.folder / name, os.O_RDWR)

    def next_entered(self) -> dict:
        """Wait for the next execution to begin: {"values": first value by request, "rows": …, "instance": …}."""
        while (said := self._next()).get("left"):
            self.left.append(said)
        return said

    def next_left(self) -> dict:
        """Wait for the next execution to end, passing over beginnings."""
        while not (said := self._next()).get("left"):
            pass
        return said

    def _next(self) -> dict:
        while b"\n" not in self._unread:
            assert readable(self._entered), f"no execution began or ended within {PATIENCE_S} s"
            self._unread += os.read(self._entered, 65536)
        line, self._unread = self._unread.split(b"\n", 1)
        return json.loads(line)

    def open(self, executions: int = 1, *, door: int | None = None) -> None:
        """Let that many executions through."""
        os.write(self._go[door], b"." * executions)

    def shut_start(self) -> None:
        """Whoever is started from now on waits in `initialize` until `open_for_good`."""
        self._go["start"] = self._pipe("start")

    def open_for_good(self) -> None:
        for pipe in self._go.values():
            os.write(pipe, b"." * _FOR_GOOD)

    def close(self) -> None:
        for pipe in (self._entered, *self._go.values()):
            os.close(pipe)


def write_gated(
    repository: Path, name: str, gate: Gate, config: str = "", *, dims: str = "-1", form: str = "inline"
) -> None:
    """The model: IN FP32 → OUT, unchanged; inline, unless its process matters, so that starting it costs nothing."""
    own = f"""
        input [ {{ name: "IN" data_type: TYPE_FP32 dims: [ {dims} ] }} ]
        output [ {{ name: "OUT" data_type: TYPE_FP32 dims: [ {dims} ] }} ]
        parameters {{ key: "gate" value {{ string_value: "{gate.folder}" }} }}
        parameters {{ key: "execution" value {{ string_value: "{form}" }} }}
    """
    write_python_model(repository, name, dedent(config) + dedent(own), CODE)
