"""A server whose one model waits for the test's word, and helpers to ask it."""

import numpy as np

from charonia.api import Server
from tests.every_door.doors import open_door
from tests.models.gated import PATIENCE_S, Gate, write_gated

# Never reached: what a test expects happens for another reason.
LONG_US = 3_600_000_000


class Gated:
    """A server with one gated model, `m`, and its gate."""

    def __init__(self, folder, config, doors, dims, form, options):
        self.gate = Gate(folder / "gate", doors)
        write_gated(folder / "models", "m", self.gate, config, dims=dims, form=form)
        ports = {"http_port": 0, "grpc_port": 0, "metrics_port": 0}
        self.server = Server(folder / "models", **ports, exit_timeout_secs=5, **options).start()
        self.model = self.server.model("m")

    def send(self, value, rows=1, length=1, **options):
        """Queue a request that carries `value`; it is queued when this returns, or its future has failed."""
        return self.model.submit({"IN": np.full((rows, length), value, np.float32)}, **options)

    def occupy(self, value=0, **options):
        """Keep an instance busy until the gate is opened."""
        future = self.send(value, **options)
        self.gate.next_entered()
        return future

    def batch_statistics(self):
        """{rows: executions}"""
        return {batch.batch_size: batch.compute_infer.count for batch in self.model.statistics().batches}

    def close(self):
        self.gate.open_for_good()
        self.server.stop()
        self.gate.close()


def ask(name, server, model, inputs, **options):
    """One request through the door called `name`, opened by the thread that uses it: the HTTP client insists."""
    door = open_door(name, server)
    try:
        return door.infer(model, inputs, **options)
    finally:
        door.close()


def value_of(future):
    return future.result(PATIENCE_S).outputs["OUT"].numpy().ravel()[0]


def row(value):
    """The inputs of one row that carries `value`."""
    return {"IN": np.full((1, 1), value, np.float32)}
