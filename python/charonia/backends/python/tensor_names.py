"""Names of tensors that a model's code writes out, beside those of its configuration."""

import ast
from collections.abc import Iterable, Iterator, Sequence
from difflib import get_close_matches

from charonia.backends.python.source import Source
from charonia.config.findings import Finding
from charonia.config.given_elsewhere import names_given_elsewhere
from charonia.config.schema import ModelConfig

_GETTER = "get_input_tensor_by_name"
_OWN_REQUESTS = "InferenceRequest"


def inputs_read(source: Source) -> dict[str, ast.Call]:
    """Names that stand as text in `get_input_tensor_by_name(request, "…")`, with the call."""
    return dict(_named(source, _GETTER, 1, "name"))


def outputs_made(source: Source) -> dict[str, ast.Call]:
    """Names that stand as text in `pb_utils.Tensor("…", array)`; none for a model that sends requests of its own."""
    if any(isinstance(node, ast.Attribute) and node.attr == _OWN_REQUESTS for node in ast.walk(source.tree)):
        return {}
    return dict(_named(source, "Tensor", 0, "name"))


def check_names(source: Source, config: ModelConfig) -> Iterator[Finding]:
    """Reading an input that no request can have gives None; an output that is not configured fails the request."""
    given_inputs, given_outputs = names_given_elsewhere(config)
    inputs = [*(io.name for io in config.input), *sorted(given_inputs)]
    outputs = [*(io.name for io in config.output), *sorted(given_outputs)]
    control = ", or a control_input of that name" if config.HasField("sequence_batching") else ""
    yield from _unknown(source, "input", inputs_read(source), inputs, control)
    yield from _unknown(source, "output", outputs_made(source), outputs)


def _unknown(
    source: Source, kind: str, used: dict[str, ast.Call], known: Sequence[str], or_else: str = ""
) -> Iterator[Finding]:
    if not known:
        return
    for name, call in used.items():
        if name in known:
            continue
        near = get_close_matches(name, known, 1, 0.6) or (known if len(known) == 1 else [])
        verb = "reads" if kind == "input" else "makes"
        message = f"the code {verb} the {kind} '{name}', and the configuration's {kind}s are {', '.join(known)}"
        meant = f"did you mean '{near[0]}'? If not, add" if near else "add"
        yield source.warning(call, message, f'{meant} {kind} [ {{ name: "{name}" data_type: … dims: … }} ]{or_else}')


def _named(source: Source, function: str, position: int, keyword: str) -> Iterator[tuple[str, ast.Call]]:
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or node.func.attr != function:
            continue
        given = [*node.args[position : position + 1], *(each.value for each in node.keywords if each.arg == keyword)]
        for each in given:
            if isinstance(each, ast.Constant) and isinstance(each.value, str):
                yield each.value, node


def example_config(inputs: Iterable[str], outputs: Iterable[str]) -> str:
    """What a configuration of a Python model looks like, with the names that its code uses."""
    return (
        f'backend: "python" input [ {_ios(inputs) or _io("INPUT")} ] output [ {_ios(outputs) or _io("OUTPUT")} ] '
        "(with the datatypes and dims of your tensors)"
    )


def _ios(names: Iterable[str]) -> str:
    return ", ".join(_io(name) for name in names)


def _io(name: str) -> str:
    return f'{{ name: "{name}" data_type: TYPE_FP32 dims: [ -1 ] }}'
