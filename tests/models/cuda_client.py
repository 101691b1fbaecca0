"""A client with memory on a GPU, in a process of its own: CUDA gives no process a handle of its own memory.

Run as a program it is that process; `CudaClient` is the test's side of it.
"""

import base64
import json
import subprocess
import sys

import numpy as np

PATIENCE_S = 60


class CudaClient:
    """Memory of FP32 elements, `skip` of them before the handle's first by which the server reads and writes.

    Attributes:
        raw_handle: of the whole allocation; nbytes: its size.
    """

    def __init__(self, elements):
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.models.cuda_client", str(elements)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.nbytes = 4 * elements
        self.raw_handle = base64.b64decode(self._said())

    def write(self, values, start=0):
        self._ask({"write": np.asarray(values, np.float32).tolist(), "start": start})

    def read(self, count, start=0):
        return self._ask({"read": count, "start": start})

    def _ask(self, order):
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        return json.loads(self._said())

    def _said(self):
        line = self._process.stdout.readline()
        assert line, f"the client ended with {self._process.wait(PATIENCE_S)}"
        return line

    def close(self):
        self._process.stdin.close()
        self._process.wait(PATIENCE_S)
        self._process.stdout.close()


def main():
    from charonia.backends.python.child import cuda
    from tests.models import cuda_framework

    memory = cuda_framework.Array(np.zeros(int(sys.argv[1]), np.float32))
    handle, offset = cuda.export(0, memory.address)
    assert offset == 0
    print(base64.b64encode(handle).decode(), flush=True)
    for line in sys.stdin:
        order = json.loads(line)
        at = memory.address + 4 * order["start"]
        if "write" in order:
            values = np.array(order["write"], np.float32)
            cuda.copy(0, at, values.ctypes.data, values.nbytes)
            cuda.settle(0)
            print("null", flush=True)
        else:
            found = np.frombuffer(cuda.download(0, at, 4 * order["read"]), np.float32)
            print(json.dumps(found.tolist()), flush=True)


if __name__ == "__main__":
    main()
