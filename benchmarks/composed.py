"""Ensembles, calls between models, sequences and streams beside a real Triton: `python -m benchmarks.composed`.

The Python models run unchanged on both servers. Environment and arguments as for `python -m benchmarks`.
"""

import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import tritonclient.grpc as grpcclient

from benchmarks.repositories import BATCHED, ECHO, ONE, ONE_CPU, write_python
from benchmarks.servers import Running, running
from benchmarks.table import Row, analysed, begin_comparison, per_s, print_rows

STREAMS = 32
RESPONSES = 100
VECTOR = ONE.format("TYPE_FP32", "INPUT0", "[ 16 ]", "OUTPUT0", "[ 16 ]")
NUMBER = ONE.format("TYPE_INT32", "INPUT", "[ 1 ]", "OUTPUT", "[ 1 ]")
CHAIN = """import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        tensor = pb_utils.get_input_tensor_by_name(request, "INPUT0")
        for model in ("echo_a", "echo_b", "echo_c"):
            inner = pb_utils.InferenceRequest(
                model_name=model,
                requested_output_names=["OUTPUT0"],
                inputs=[pb_utils.Tensor("INPUT0", tensor.as_numpy())],
            )
            response = inner.exec()
            if response.has_error():
                return pb_utils.InferenceResponse(error=response.error())
            tensor = pb_utils.get_output_tensor_by_name(response, "OUTPUT0")
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT0", tensor.as_numpy())])
"""
SUM = """import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def initialize(self, args):
        self.sums = {}

    def execute(self, requests):
        return [self.answer(request) for request in requests]

    def answer(self, request):
        value, start, end, ready, key = (
            int(pb_utils.get_input_tensor_by_name(request, name).as_numpy().reshape(-1)[0])
            for name in ("INPUT", "START", "END", "READY", "CORRID")
        )
        total = value if start else self.sums.get(key, 0) + value
        if ready:
            self.sums[key] = total
            if end:
                del self.sums[key]
        return pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", np.array([[total]]).astype(np.int32))])
"""
CONTROLS = """
sequence_batching {
  max_sequence_idle_microseconds: 60000000
  direct {}
  control_input [
    { name: "START" control [ { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } ] },
    { name: "END" control [ { kind: CONTROL_SEQUENCE_END int32_false_true: [ 0, 1 ] } ] },
    { name: "READY" control [ { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } ] },
    { name: "CORRID" control [ { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } ] }
  ]
}
"""
COUNT = f"""import numpy as np
import triton_python_backend_utils as pb_utils


class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for number in range({RESPONSES}):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("OUTPUT", np.array([number], np.int32))]))
            sender.send(flags=pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL)
"""


def ensemble(names: tuple[str, ...]) -> str:
    """A chain of models that echo INPUT0 to OUTPUT0."""
    tensors = ["INPUT0", *(f"between_{index}" for index in range(1, len(names))), "OUTPUT0"]
    steps = "".join(
        f'{{ model_name: "{name}" model_version: -1 input_map {{ key: "INPUT0" value: "{before}" }} '
        f'output_map {{ key: "OUTPUT0" value: "{after}" }} }},\n'
        for name, before, after in zip(names, tensors[:-1], tensors[1:], strict=True)
    )
    return f'platform: "ensemble"\nmax_batch_size: 64\n{VECTOR}ensemble_scheduling {{ step [\n{steps[:-2]}\n] }}\n'


def build(both: Path, ours: Path) -> None:
    """`both` holds what a real Triton can serve too, `ours` the rest."""
    for name in ("echo_a", "echo_b", "echo_c"):
        write_python(both, name, BATCHED + ONE_CPU + VECTOR, ECHO)
    write_python(both, "chain", BATCHED + ONE_CPU + VECTOR, CHAIN)
    write_python(both, "sum", f"max_batch_size: {STREAMS}\n" + ONE_CPU + NUMBER + CONTROLS, SUM)
    write_python(both, "count", "model_transaction_policy { decoupled: true }\n" + ONE_CPU + NUMBER, COUNT)
    write_config(both, "ensemble_python", ensemble(("echo_a", "echo_b", "echo_c")))
    for name in ("identity_a", "identity_b", "identity_c"):
        write_config(ours, name, 'backend: "identity"\n' + BATCHED + ONE_CPU + VECTOR)
    write_config(ours, "ensemble_identity", ensemble(("identity_a", "identity_b", "identity_c")))


def write_config(repository: Path, name: str, config: str) -> None:
    (repository / name / "1").mkdir(parents=True)
    (repository / name / "config.pbtxt").write_text(config)


def rows() -> list[Row]:
    table = []
    for protocol in ("http", "grpc"):
        python = analysed("ensemble_python", protocol, 16)
        table.append(Row(f"ensemble of three Python models c=16 {protocol}", python, python, per_s, 1.5))
        identity = analysed("ensemble_identity", protocol, 16)
        table.append(Row(f"ensemble of three identity models c=16 {protocol}", identity, python, per_s, 4))
        chain = analysed("chain", protocol, 16)
        table.append(Row(f"a Python model that calls three others c=16 {protocol}", chain, chain, per_s, 1.5))
    sequence = ("--sequence-length", "20", "--num-of-sequences", str(STREAMS))
    for protocol, extra in (("http", ()), ("grpc", ()), ("grpc", ("--streaming",))):
        summed = analysed("sum", protocol, STREAMS, *sequence, *extra)
        name = f"{STREAMS} sequences of 20 requests {protocol} {' '.join(extra)}".strip()
        table.append(Row(name, summed, summed, per_s, 1.5))
    counted = analysed("count", "grpc", 4, "--streaming", "--shape", "INPUT:1")
    table.append(Row(f"decoupled, {RESPONSES} responses a request c=4 grpc --streaming", counted, counted, per_s, 1.5))
    return table


def check(server: Running) -> None:
    """The answers must be right before anything is timed."""
    vector = np.arange(16, dtype=np.float32).reshape(1, 16)
    tensor = grpcclient.InferInput("INPUT0", vector.shape, "FP32")
    tensor.set_data_from_numpy(vector)
    with grpcclient.InferenceServerClient(server.address("grpc")) as client:
        for model in ("ensemble_python", "chain"):
            np.testing.assert_array_equal(client.infer(model, [tensor]).as_numpy("OUTPUT0"), vector)
        number = grpcclient.InferInput("INPUT", [1, 1], "INT32")
        number.set_data_from_numpy(np.array([[5]], np.int32))
        for step, total in ((0, 5), (1, 10), (2, 15)):
            answer = client.infer("sum", [number], sequence_id=7, sequence_start=step == 0, sequence_end=step == 2)
            assert answer.as_numpy("OUTPUT").item() == total


def main() -> None:
    begin_comparison()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        both, ours = Path(folder, "both"), Path(folder, "ours")
        build(both, ours)
        theirs = stack.enter_context(running("triton", both))
        for model in both.iterdir():
            (ours / model.name).symlink_to(model)
        mine = stack.enter_context(running("charonia", ours))
        for server in (theirs, mine):
            check(server)
        print_rows(rows(), mine, theirs)


if __name__ == "__main__":
    main()
