"""A transformer of two layers in ONNX, with weights from a seeded generator: it always says the same, and no sense.

tokens INT64 [batch, WINDOW], the last ones of the text, padded at the left
    → logits FP32 [batch, vocabulary], how likely each token comes next
"""

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from examples.language import vocabulary

WINDOW = 16
LAYERS, HEADS, WIDTH = 2, 2, 32
# Of the weights: with weaker ones the last token alone decides, and the text soon goes round in circles.
STRENGTH = 3
_OPSET = 17
_IR_VERSION = 8
_NEVER, _ALWAYS = -1e4, 1e4


class Graph:
    """Nodes and weights as they are added; names are made up."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(11)

    def constant(self, array: NDArray[np.generic]) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(array, name))
        return name

    def weight(self, *shape: int) -> str:
        return self.constant((STRENGTH * self.random.standard_normal(shape) / np.sqrt(shape[0])).astype(np.float32))

    def add(self, operator: str, *inputs: str, output: str = "", **attributes: object) -> str:
        name = output or f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        return name


def build() -> onnx.ModelProto:
    graph = Graph()
    places = graph.weight(1, WINDOW, WIDTH)
    hidden = graph.add("Add", graph.add("Gather", graph.weight(vocabulary.SIZE, WIDTH), "tokens"), places)
    hidden_from = mask(graph)
    for _ in range(LAYERS):
        hidden = graph.add("Add", hidden, attention(graph, normal(graph, hidden), hidden_from))
        wide = graph.add("Relu", graph.add("MatMul", normal(graph, hidden), graph.weight(WIDTH, 4 * WIDTH)))
        hidden = graph.add("Add", hidden, graph.add("MatMul", wide, graph.weight(4 * WIDTH, WIDTH)))
    last = graph.add("Gather", normal(graph, hidden), graph.constant(np.array(WINDOW - 1)), axis=1)
    free = graph.add("MatMul", last, graph.weight(WIDTH, vocabulary.SIZE))
    last_token = graph.add("Gather", "tokens", graph.constant(np.array(WINDOW - 1)), axis=1)
    graph.add("Add", free, graph.add("Gather", graph.constant(grammar(graph)), last_token), output="logits")
    tokens = helper.make_tensor_value_info("tokens", TensorProto.INT64, ["batch", WINDOW])
    logits = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", vocabulary.SIZE])
    made = helper.make_graph(graph.nodes, "language", [tokens], [logits], graph.weights)
    model = helper.make_model(made, opset_imports=[helper.make_opsetid("", _OPSET)], ir_version=_IR_VERSION)
    onnx.checker.check_model(model)
    return model


def mask(graph: Graph) -> str:
    """[batch, 1, WINDOW, WINDOW]: nobody looks at what comes later, or at padding."""
    later = graph.constant(np.triu(np.full((WINDOW, WINDOW), _NEVER, np.float32), 1))
    is_padding = graph.add("Equal", "tokens", graph.constant(np.array(vocabulary.PADDING)))
    hidden = graph.add("Mul", graph.add("Cast", is_padding, to=TensorProto.FLOAT), graph.constant(np.float32(_NEVER)))
    return graph.add("Add", later, graph.add("Unsqueeze", hidden, graph.constant(np.array([1, 2]))))


def normal(graph: Graph, hidden: str) -> str:
    scale, bias = graph.constant(np.ones(WIDTH, np.float32)), graph.constant(np.zeros(WIDTH, np.float32))
    return graph.add("LayerNormalization", hidden, scale, bias)


def attention(graph: Graph, hidden: str, hidden_from: str) -> str:
    split = graph.constant(np.array([0, WINDOW, HEADS, WIDTH // HEADS]))

    def heads(order: tuple[int, ...]) -> str:
        projected = graph.add("MatMul", hidden, graph.weight(WIDTH, WIDTH))
        return graph.add("Transpose", graph.add("Reshape", projected, split), perm=order)

    queries, keys, values = heads((0, 2, 1, 3)), heads((0, 2, 3, 1)), heads((0, 2, 1, 3))
    scale = graph.constant(np.float32((WIDTH // HEADS) ** -0.5))
    scores = graph.add("Add", graph.add("Mul", graph.add("MatMul", queries, keys), scale), hidden_from)
    seen = graph.add("MatMul", graph.add("Softmax", scores, axis=-1), values)
    joined = graph.add(
        "Reshape", graph.add("Transpose", seen, perm=(0, 2, 1, 3)), graph.constant(np.array([0, WINDOW, WIDTH]))
    )
    return graph.add("MatMul", joined, graph.weight(WIDTH, WIDTH))


def grammar(graph: Graph) -> NDArray[np.float32]:
    """By token and the next one: bytes and second halves come only where they must, and no token twice in a row."""
    rules = np.zeros((vocabulary.SIZE, vocabulary.SIZE), np.float32)
    rules[:, : vocabulary.FIRST_PIECE] = _NEVER
    rules[:, vocabulary.END] = -0.5
    for first, second in vocabulary.SECOND_HALVES.items():
        rules[:, vocabulary.token_of(second)] = _NEVER
        rules[vocabulary.token_of(first)] = _NEVER
        rules[vocabulary.token_of(first), vocabulary.token_of(second)] = _ALWAYS
    np.fill_diagonal(rules, _NEVER)
    return rules
