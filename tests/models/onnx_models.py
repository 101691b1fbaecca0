"""Tiny ONNX models for tests and benchmarks, built in memory: same arguments, same bytes.

Every builder returns an `onnx.ModelProto`; `save` writes it where a model repository wants it.
"""

from itertools import pairwise
from pathlib import Path

import ml_dtypes
import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

Dims = list[int | str | None]

OPSET = 17
IR_VERSION = 8

ONNX_TYPES: dict[str, int] = {
    "BOOL": TensorProto.BOOL,
    "UINT8": TensorProto.UINT8,
    "UINT16": TensorProto.UINT16,
    "UINT32": TensorProto.UINT32,
    "UINT64": TensorProto.UINT64,
    "INT8": TensorProto.INT8,
    "INT16": TensorProto.INT16,
    "INT32": TensorProto.INT32,
    "INT64": TensorProto.INT64,
    "FP16": TensorProto.FLOAT16,
    "FP32": TensorProto.FLOAT,
    "FP64": TensorProto.DOUBLE,
    "BYTES": TensorProto.STRING,
    "BF16": TensorProto.BFLOAT16,
}


def save(model: onnx.ModelProto, repository: Path, name: str, version: int = 1, filename: str = "model.onnx") -> Path:
    """Write `<repository>/<name>/<version>/<filename>` and return its path."""
    path = repository / name / str(version) / filename
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(model.SerializeToString(deterministic=True))
    return path


def add_sub(datatype: str = "FP32", dims: Dims | None = None) -> onnx.ModelProto:
    """INPUT0, INPUT1 -> OUTPUT0 = sum, OUTPUT1 = difference; [N, 16] unless `dims` (with batch dimension) says."""
    shape = ["N", 16] if dims is None else dims
    inputs = [_value("INPUT0", datatype, shape), _value("INPUT1", datatype, shape)]
    outputs = [_value("OUTPUT0", datatype, shape), _value("OUTPUT1", datatype, shape)]
    nodes = [
        helper.make_node("Add", ["INPUT0", "INPUT1"], ["OUTPUT0"]),
        helper.make_node("Sub", ["INPUT0", "INPUT1"], ["OUTPUT1"]),
    ]
    return _model("add_sub", nodes, inputs, outputs)


def identity(datatype: str = "FP32", dims: Dims | None = None, pairs: int = 1) -> onnx.ModelProto:
    """INPUTn -> OUTPUTn unchanged, for any datatype; [N, -1] unless `dims` says."""
    shape = ["N", "length"] if dims is None else dims
    inputs = [_value(f"INPUT{n}", datatype, shape) for n in range(pairs)]
    outputs = [_value(f"OUTPUT{n}", datatype, shape) for n in range(pairs)]
    nodes = [helper.make_node("Identity", [f"INPUT{n}"], [f"OUTPUT{n}"]) for n in range(pairs)]
    return _model("identity", nodes, inputs, outputs)


def scalar() -> onnx.ModelProto:
    """X FP32 of rank 0 -> Y = X + 1, rank 0; it can't batch."""
    one = numpy_helper.from_array(np.array(1, np.float32), "one")
    node = helper.make_node("Add", ["X", "one"], ["Y"])
    return _model("scalar", [node], [_value("X", "FP32", [])], [_value("Y", "FP32", [])], [one])


def scalar_rows() -> onnx.ModelProto:
    """X FP32 [N] -> Y = X + 1 [N]: one number a row, config dims [1] with an empty reshape."""
    one = numpy_helper.from_array(np.array(1, np.float32), "one")
    node = helper.make_node("Add", ["X", "one"], ["Y"])
    return _model("scalar_rows", [node], [_value("X", "FP32", ["N"])], [_value("Y", "FP32", ["N"])], [one])


def segments() -> onnx.ModelProto:
    """X FP32 [E], the elements of all requests, and EDGES INT32 [N + 1], where those of each begin and the last ones
    end -> SUM FP32 [N, 1], the sum of each request's elements; TWICE [E] = 2 X; fails where a sum is 1000."""
    constants = [
        numpy_helper.from_array(np.array(value, dtype), name)
        for name, value, dtype in (
            ("axis", 0, np.int64),
            ("nothing", [0], np.float32),
            ("first", [0], np.int64),
            ("second", [1], np.int64),
            ("last", [-1], np.int64),
            ("end", [2**31], np.int64),
            ("column", [-1, 1], np.int64),
            ("two", 2, np.float32),
            ("thousand", 1000, np.float32),
            ("table", [0], np.float32),
        )
    ]
    nodes = [
        helper.make_node("CumSum", ["X", "axis"], ["running"]),
        helper.make_node("Concat", ["nothing", "running"], ["before"], axis=0),
        helper.make_node("Gather", ["before", "EDGES"], ["at_edges"]),
        helper.make_node("Slice", ["at_edges", "second", "end"], ["at_ends"]),
        helper.make_node("Slice", ["at_edges", "first", "last"], ["at_starts"]),
        helper.make_node("Sub", ["at_ends", "at_starts"], ["sums"]),
        helper.make_node("Equal", ["sums", "thousand"], ["is_thousand"]),
        helper.make_node("Cast", ["is_thousand"], ["index"], to=TensorProto.INT64),
        helper.make_node("Gather", ["table", "index"], ["zeros"]),  # there is no element 1: the run fails
        helper.make_node("Add", ["sums", "zeros"], ["checked"]),
        helper.make_node("Reshape", ["checked", "column"], ["SUM"]),
        helper.make_node("Mul", ["X", "two"], ["TWICE"]),
    ]
    inputs = [_value("X", "FP32", ["E"]), _value("EDGES", "INT32", ["M"])]
    outputs = [_value("SUM", "FP32", ["N", 1]), _value("TWICE", "FP32", ["E"])]
    return _model("segments", nodes, inputs, outputs, constants)


def doubled() -> onnx.ModelProto:
    """X FP32 [N, 4] -> TWICE = X below X, [2N, 4]: its first dimension is open, but it does not keep the rows."""
    nodes = [helper.make_node("Concat", ["X", "X"], ["TWICE"], axis=0)]
    return _model("doubled", nodes, [_value("X", "FP32", ["N", 4])], [_value("TWICE", "FP32", ["M", 4])])


def sequence() -> onnx.ModelProto:
    """X FP32 [N, 4] -> PARTS, a sequence of tensors, which no protocol datatype can carry."""
    parts = helper.make_tensor_sequence_value_info("PARTS", TensorProto.FLOAT, None)
    node = helper.make_node("SplitToSequence", ["X"], ["PARTS"], axis=0)
    return _model("sequence", [node], [_value("X", "FP32", ["N", 4])], [parts])


def optional_bias() -> onnx.ModelProto:
    """X FP32 [N, 2] and BIAS FP32 [1, 2], an initializer that a request may override -> Y = X + BIAS (default 10)."""
    bias = numpy_helper.from_array(np.full((1, 2), 10, np.float32), "BIAS")
    inputs = [_value("X", "FP32", ["N", 2]), _value("BIAS", "FP32", [1, 2])]
    node = helper.make_node("Add", ["X", "BIAS"], ["Y"])
    return _model("optional_bias", [node], inputs, [_value("Y", "FP32", ["N", 2])], [bias])


def failing_reshape() -> onnx.ModelProto:
    """X FP32 [N, 4] reshaped to [N, 3]: loads, and fails at every run."""
    shape = numpy_helper.from_array(np.array([0, 3], np.int64), "shape")
    node = helper.make_node("Reshape", ["X", "shape"], ["Y"])
    outputs = [_value("Y", "FP32", ["N", "M"])]
    return _model("failing_reshape", [node], [_value("X", "FP32", ["N", 4])], outputs, [shape])


def looked_up() -> onnx.ModelProto:
    """INDEX INT64 [N, 1] -> Y FP32 [N, 1]: element INDEX of a table of 4; fails for an index beyond it."""
    table = numpy_helper.from_array(np.array([10, 20, 30, 40], np.float32), "table")
    node = helper.make_node("Gather", ["table", "INDEX"], ["Y"])
    return _model("looked_up", [node], [_value("INDEX", "INT64", ["N", 1])], [_value("Y", "FP32", ["N", 1])], [table])


def accumulator(datatype: str = "INT32", first: Dims | None = None) -> onnx.ModelProto:
    """INPUT, STATE, START, READY [N, 1] -> OUTPUT = NEXT.

    NEXT is INPUT, with STATE added unless START is 1, and STATE where READY is 0. `first` stands for the batch
    dimension: [] for none.
    """
    shape = [*(["N"] if first is None else first), 1]
    inputs = [_value(name, datatype, shape) for name in ("INPUT", "STATE")]
    inputs += [_value(name, "INT32", shape) for name in ("START", "READY")]
    nodes = [
        helper.make_node("Cast", ["START"], ["starts"], to=TensorProto.BOOL),
        helper.make_node("Cast", ["READY"], ["is_ready"], to=TensorProto.BOOL),
        helper.make_node("Add", ["INPUT", "STATE"], ["sum"]),
        helper.make_node("Where", ["starts", "INPUT", "sum"], ["made"]),
        helper.make_node("Where", ["is_ready", "made", "STATE"], ["NEXT"]),
        helper.make_node("Identity", ["NEXT"], ["OUTPUT"]),
    ]
    return _model("accumulator", nodes, inputs, [_value(name, datatype, shape) for name in ("OUTPUT", "NEXT")])


def delay(datatype: str) -> onnx.ModelProto:
    """INPUT, STATE [N, length] -> OUTPUT = STATE, NEXT = INPUT: each request gets the one before."""
    shape: Dims = ["N", "length"]
    nodes = [helper.make_node("Identity", [a], [b]) for a, b in (("STATE", "OUTPUT"), ("INPUT", "NEXT"))]
    inputs = [_value(name, datatype, shape) for name in ("INPUT", "STATE")]
    return _model("delay", nodes, inputs, [_value(name, datatype, shape) for name in ("OUTPUT", "NEXT")])


def streaming_cache() -> onnx.ModelProto:
    """A cache of what came and its length, as streaming speech models have them; nothing pairs by order or alphabet.

    audio FP16 [N, 1], cache_last_channel FP16 [N, T], cache_last_channel_len INT64 [N, 1] -> seen FP32 [N, 1], the sum
    of the cache; cache_last_channel_next [N, T + 1], with audio at its end; cache_last_channel_len_next, one more.
    """
    inputs = [
        _value("audio", "FP16", ["N", 1]),
        _value("cache_last_channel_len", "INT64", ["N", 1]),
        _value("cache_last_channel", "FP16", ["N", "T"]),
    ]
    outputs = [
        _value("cache_last_channel_next", "FP16", ["N", "U"]),
        _value("seen", "FP32", ["N", 1]),
        _value("cache_last_channel_len_next", "INT64", ["N", 1]),
    ]
    nodes = [
        helper.make_node("Concat", ["cache_last_channel", "audio"], ["cache_last_channel_next"], axis=1),
        helper.make_node("Add", ["cache_last_channel_len", "one"], ["cache_last_channel_len_next"]),
        helper.make_node("Cast", ["cache_last_channel_next"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("ReduceSum", ["wide", "axis"], ["seen"], keepdims=1),
    ]
    weights = [numpy_helper.from_array(np.array([1], np.int64), name) for name in ("one", "axis")]
    return _model("streaming_cache", nodes, inputs, outputs, weights)


def mlp(widths: tuple[int, ...] = (256, 1024, 1024, 10), seed: int = 1) -> onnx.ModelProto:
    """`input` FP32 [N, 256] -> dense layers with ReLU between -> `output` FP32 [N, 10]."""
    random = np.random.default_rng(seed)
    nodes, weights, at = [], [], "input"
    for layer, (rows, columns) in enumerate(pairwise(widths)):
        last = layer == len(widths) - 2
        matrix = (random.standard_normal((rows, columns)) / np.sqrt(rows)).astype(np.float32)
        weights += [numpy_helper.from_array(matrix, f"w{layer}"), _zeros(f"b{layer}", columns)]
        made = "output" if last else f"dense{layer}"
        nodes.append(helper.make_node("Gemm", [at, f"w{layer}", f"b{layer}"], [made]))
        at = made
        if not last:
            nodes.append(helper.make_node("Relu", [at], [f"relu{layer}"]))
            at = f"relu{layer}"
    inputs, outputs = [_value("input", "FP32", ["N", widths[0]])], [_value("output", "FP32", ["N", widths[-1]])]
    return _model("mlp", nodes, inputs, outputs, weights)


def conv_net(classes: int = 1000, seed: int = 2, side: int = 224) -> onnx.ModelProto:
    """`input` FP32 [N, 3, side, side] -> `logits` FP32 [N, classes]: squeezenet 1.1's layers with random weights.

    About 1.2 million weights and 0.35 G multiply-adds a row at side 224.
    """
    net = _ConvNet(seed)
    net.conv("input", "c1", 3, 64, 3, stride=2)
    net.pool("c1", "p1")
    net.fire("p1", "f2", 64, 16, 64)
    net.fire("f2", "f3", 128, 16, 64)
    net.pool("f3", "p3")
    net.fire("p3", "f4", 128, 32, 128)
    net.fire("f4", "f5", 256, 32, 128)
    net.pool("f5", "p5")
    net.fire("p5", "f6", 256, 48, 192)
    net.fire("f6", "f7", 384, 48, 192)
    net.fire("f7", "f8", 384, 64, 256)
    net.fire("f8", "f9", 512, 64, 256)
    net.conv("f9", "c10", 512, classes, 1)
    net.nodes.append(helper.make_node("GlobalAveragePool", ["c10"], ["g"]))
    net.nodes.append(helper.make_node("Flatten", ["g"], ["logits"], axis=1))
    inputs, outputs = [_value("input", "FP32", ["N", 3, side, side])], [_value("logits", "FP32", ["N", classes])]
    return _model("conv_net", net.nodes, inputs, outputs, net.weights)


def external_weights(repository: Path, name: str) -> Path:
    """A linear model [N, 4] -> [N, 4] whose weights stand in `weights.bin` beside it; returns the model's path."""
    weight = numpy_helper.from_array(np.eye(4, dtype=np.float32), "w")
    node = helper.make_node("MatMul", ["X", "w"], ["Y"])
    model = _model("external", [node], [_value("X", "FP32", ["N", 4])], [_value("Y", "FP32", ["N", 4])], [weight])
    path = repository / name / "1" / "model.onnx"
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save_model(model, str(path), save_as_external_data=True, location="weights.bin", size_threshold=0)
    return path


class _ConvNet:
    """Collects the nodes and weights of a convolution net."""

    def __init__(self, seed: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self._random = np.random.default_rng(seed)

    def conv(self, at: str, made: str, channels: int, filters: int, kernel: int, stride: int = 1, pad: int = 0) -> None:
        scale = np.sqrt(2 / (channels * kernel * kernel))
        weight = self._random.standard_normal((filters, channels, kernel, kernel)) * scale
        self.weights += [numpy_helper.from_array(weight.astype(np.float32), f"{made}_w"), _zeros(f"{made}_b", filters)]
        self.nodes.append(
            helper.make_node(
                "Conv",
                [at, f"{made}_w", f"{made}_b"],
                [f"{made}_raw"],
                kernel_shape=[kernel, kernel],
                strides=[stride, stride],
                pads=[pad] * 4,
            )
        )
        self.nodes.append(helper.make_node("Relu", [f"{made}_raw"], [made]))

    def pool(self, at: str, made: str) -> None:
        self.nodes.append(helper.make_node("MaxPool", [at], [made], kernel_shape=[3, 3], strides=[2, 2]))

    def fire(self, at: str, made: str, channels: int, squeeze: int, expand: int) -> None:
        self.conv(at, f"{made}_s", channels, squeeze, 1)
        self.conv(f"{made}_s", f"{made}_e1", squeeze, expand, 1)
        self.conv(f"{made}_s", f"{made}_e3", squeeze, expand, 3, pad=1)
        self.nodes.append(helper.make_node("Concat", [f"{made}_e1", f"{made}_e3"], [made], axis=1))


def sample(datatype: str, shape: tuple[int, ...], seed: int = 0) -> NDArray[np.generic]:
    """Random values of a wire datatype; object arrays of `bytes` (also empty and non-UTF-8) for BYTES."""
    random = np.random.default_rng(seed)
    if datatype == "BYTES":
        words = np.empty(int(np.prod(shape)), np.object_)
        words[:] = [random.bytes(int(random.integers(0, 9))) for _ in range(words.size)]
        return words.reshape(shape)
    if datatype == "BOOL":
        return random.random(shape) < 0.5
    if datatype == "BF16":
        return random.standard_normal(shape).astype(ml_dtypes.bfloat16)
    dtype = helper.tensor_dtype_to_np_dtype(ONNX_TYPES[datatype])
    if dtype.kind == "f":
        return random.standard_normal(shape).astype(dtype)
    info = np.iinfo(dtype)
    return random.integers(info.min, info.max, shape, dtype=dtype, endpoint=True)


def _value(name: str, datatype: str, dims: Dims) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, ONNX_TYPES[datatype], dims)


def _zeros(name: str, length: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.zeros(length, np.float32), name)


def _model(
    name: str,
    nodes: list[onnx.NodeProto],
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
    weights: list[onnx.TensorProto] | None = None,
) -> onnx.ModelProto:
    graph = helper.make_graph(nodes, name, inputs, outputs, weights or [])
    opset = [helper.make_opsetid("", OPSET)]
    return helper.make_model(graph, opset_imports=opset, ir_version=IR_VERSION, producer_name="charonia-tests")
