"""A session on a GPU whose tensors stay there between models: inputs that lie on the GPU are bound where they are, and
outputs for other models stay in ONNX Runtime's values. What comes from clients and goes to them, ONNX Runtime copies
itself, as for any session."""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Self

import numpy as np

from charonia.backends.base import Batch
from charonia.backends.joining import check_rows, split, whole
from charonia.backends.onnxruntime.instance import InputPlan, OnnxRuntimeInstance, OutputPlan
from charonia.backends.onnxruntime.signature import Signature
from charonia.backends.python.child import cuda
from charonia.backends.python.child.devices import Local
from charonia.core.datatypes import BYTES, DATATYPES
from charonia.core.errors import BackendError
from charonia.core.request import InferRequest
from charonia.core.tensor import Tensor


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU, here and in ONNX Runtime.

    Attributes:
        device: as buffers name it ("gpu:0").
        kind, index: as ONNX Runtime names it.
        copy: (target, source, nbytes), between any two places; may only begin.
        settle: wait for what has begun.
    """

    device: str
    kind: str
    index: int
    copy: Callable[[int, int, int], None]
    settle: Callable[[], None]

    @classmethod
    def of(cls, device: str) -> Self:
        index = int(device.removeprefix("gpu:"))
        return cls(device, "cuda", index, partial(cuda.copy, index), partial(cuda.settle, index))


def can_stay(signature: Signature) -> bool:
    """Whether the tensors of a model can be bound: ONNX Runtime's Python interface binds no strings, and bfloat16 goes
    another way."""
    texts = [tensor for tensor in signature.inputs if tensor.datatype == BYTES]
    return not texts and all(tensor.datatype != "BF16" for tensor in (*signature.inputs, *signature.outputs))


class GpuInstance(OnnxRuntimeInstance):
    """See `OnnxRuntimeInstance`; for models that `can_stay`."""

    def __init__(self, *args: Any, gpu: Gpu, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._gpu = gpu

    def _execute(self, batch: Batch, requests: Sequence[InferRequest]) -> None:
        if any(self._concerns_gpu(request) for request in requests):
            self._execute_bound(batch, requests)
        else:
            super()._execute(batch, requests)

    def _concerns_gpu(self, request: InferRequest) -> bool:
        """Whether another model asks, which may be able to use the GPU's memory, or something lies there already."""
        return bool(request.ancestors) or any(self._is_here(tensor) for tensor in request.inputs.values())

    def _is_here(self, tensor: Tensor) -> bool:
        return tensor.buffer.device == self._gpu.device and tensor.buffer.nbytes > 0

    def _execute_bound(self, batch: Batch, requests: Sequence[InferRequest]) -> None:
        plan = self._plan(requests)
        binding = self._session.io_binding()
        try:
            held = [self._bind_input(binding, each, requests) for each in self._inputs]
            for name, datatype in zip(plan.names, plan.datatypes, strict=True):
                binding.bind_output(name, *(("cpu",) if datatype == BYTES else (self._gpu.kind, self._gpu.index)))
            self._gpu.settle()
            batch.inputs_ready()
            self._session.run_with_iobinding(binding, self._run_options)
            binding.synchronize_outputs()
        except BackendError:
            raise
        except Exception as error:
            raise self._failed(error) from error
        batch.outputs_ready()
        del held
        self._answer(batch, requests, plan, [_Output(value, self._session) for value in binding.get_outputs()])

    def _bind_input(self, binding: Any, plan: InputPlan, requests: Sequence[InferRequest]) -> Any:
        """Gives what must live until the model has run."""
        name, alone = plan.name, len(requests) == 1
        if name not in requests[0].inputs:
            if plan.optional:
                return None
            raise BackendError(f"model '{self._model}': a request without input '{name}' reached the model")
        tensors = [request.inputs[name] for request in requests]
        first = tensors[0]
        if not any(self._is_here(tensor) for tensor in tensors):
            rows = sum(request.batch_size for request in requests)
            array = plan.to_array(first if alone else self._staging.join(requests, name, rows))
            binding.bind_cpu_input(name, array.reshape(()) if plan.scalar and array.size == 1 else array)
            return array
        dtype = DATATYPES[first.datatype].numpy
        if not alone:
            return self._bind_joined(binding, tensors, dtype)
        shape = () if plan.scalar and first.shape == (1,) else first.shape
        address = first.buffer.address  # type: ignore[attr-defined]  # it is a DeviceBuffer
        binding.bind_input(name, self._gpu.kind, self._gpu.index, dtype.type, shape, address)
        return first

    def _bind_joined(self, binding: Any, tensors: Sequence[Tensor], dtype: Any) -> Any:
        """Join on the GPU; what is on the host, or on another GPU, comes there."""
        first = tensors[0]
        shape = [sum(tensor.shape[0] for tensor in tensors), *first.shape[1:]]
        joined = self._runtime.OrtValue.ortvalue_from_shape_and_type(shape, dtype.type, self._gpu.kind, self._gpu.index)
        at, held = joined.data_ptr(), [joined]
        for tensor in tensors:
            nbytes = tensor.buffer.nbytes
            if self._is_here(tensor):
                source = tensor.buffer.address  # type: ignore[attr-defined]  # it is a DeviceBuffer
            else:
                host = np.frombuffer(tensor.buffer.host(), np.uint8) if nbytes else np.empty(0, np.uint8)
                held.append(host)
                source = host.ctypes.data
            self._gpu.copy(at, source, nbytes)
            at += nbytes
        binding.bind_ortvalue_input(first.name, joined)
        return held

    def _answer(
        self, batch: Batch, requests: Sequence[InferRequest], plan: OutputPlan, outputs: Sequence["_Output"]
    ) -> None:
        rows = [request.batch_size for request in requests]
        if self._batched or len(requests) > 1:
            check_rows(self._model, plan.names, outputs, sum(rows))
        columns = [
            self._tensors(name, datatype, output, rows, name in plan.scalars)
            for name, datatype, output in zip(plan.names, plan.datatypes, outputs, strict=True)
        ]
        for request, tensors in zip(requests, zip(*columns, strict=True), strict=True):
            batch.respond(request, tensors)

    def _tensors(
        self, name: str, datatype: str, output: "_Output", rows: Sequence[int], is_scalar: bool
    ) -> list[Tensor]:
        """One output, for each request."""
        if datatype == BYTES or not output.nbytes:
            array = output.value.numpy()
            if len(rows) > 1:
                return split(name, datatype, array, rows, sum(rows))
            return [whole(name, datatype, array.reshape(1) if is_scalar and not array.shape else array)]
        shape, device = output.shape, self._gpu.device
        if len(rows) == 1:
            full = (1,) if is_scalar and not shape else shape
            return [Tensor(name, datatype, full, OutputBuffer(device, output, 0, output.nbytes))]
        row_bytes = output.nbytes // shape[0]
        tensors, at = [], 0
        for count in rows:
            buffer = OutputBuffer(device, output, at, count * row_bytes)
            tensors.append(Tensor(name, datatype, (count, *shape[1:]), buffer))
            at += buffer.nbytes
        return tensors


class _Output:
    """One value that the model gave. It is copied to the host once, for all requests of the batch."""

    def __init__(self, value: Any, session: Any) -> None:
        self.value = value
        self._session = session  # the memory is its allocator's
        self.shape: tuple[int, ...] = tuple(value.shape())
        self.nbytes: int = value.tensor_size_in_bytes() if value.data_type() != "tensor(string)" else 0
        self._lock = threading.Lock()
        self._copy: memoryview | None = None

    def host(self) -> memoryview:
        with self._lock:
            if self._copy is None:
                flat: Any = self.value.numpy().reshape(-1).view(np.uint8)
                self._copy = memoryview(flat)
            return self._copy


class OutputBuffer(Local):
    """A DeviceBuffer: the part of a value that belongs to one request."""

    __slots__ = ("_start",)

    def __init__(self, device: str, output: _Output, start: int, nbytes: int) -> None:
        super().__init__(device, output.value.data_ptr() + start, nbytes, output)
        self._start = start

    def host(self) -> memoryview:
        return self._holder.host()[self._start : self._start + self.nbytes]  # type: ignore[no-any-return]
