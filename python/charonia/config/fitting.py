"""The lines of a configuration that fit a model, to be copied."""

from collections.abc import Sequence

from charonia.config.contradict_dims import as_field
from charonia.config.given_elsewhere import names_given_elsewhere
from charonia.config.model_tensor import ModelTensor, fits
from charonia.config.schema import ModelConfig, ModelInput, ModelOutput
from charonia.core.text import printable

_MOST_TENSORS = 24
"""More of them are not copied by hand."""
_USUAL_BATCH_SIZE = 8


def fitting_lines(
    config: ModelConfig, inputs: Sequence[ModelTensor], outputs: Sequence[ModelTensor], model_file: str
) -> str:
    """max_batch_size, inputs and outputs as the model has them, indented; "" when there are too many.

    It batches if `config` wants to and the model can. Outputs that the configuration leaves out stay out, and so does
    what the server gives and keeps itself.
    """
    wanted = {output.name for output in config.output}
    given_inputs, given_outputs = names_given_elsewhere(config)
    chosen = [each for each in outputs if each.name in wanted] or [
        each for each in outputs if each.name not in given_outputs
    ]
    used = (*inputs, *chosen, *(each for each in outputs if each.name in given_outputs))
    if len(used) > _MOST_TENSORS:
        return ""
    size = _batch_size(config, used) if all(tensor.can_batch for tensor in used) else 0
    sent = [each for each in inputs if each.name not in given_inputs and (not each.optional or _has(config, each))]
    lines = [f"what fits {model_file}:", f"  max_batch_size: {size}"]
    lines += [f"  input {_block(tensor, size)}" for tensor in sent]
    lines += [f"  output {_block(tensor, size)}" for tensor in chosen]
    return "\n".join(f"    {printable(line)}" for line in lines)


def _batch_size(config: ModelConfig, tensors: Sequence[ModelTensor]) -> int:
    """Dims without the batch dimension say that batching is wanted, also where max_batch_size was forgotten."""
    if config.max_batch_size > 0:
        return config.max_batch_size
    dims = {tensor.name: tensor.dims for tensor in tensors}
    ios: list[ModelInput | ModelOutput] = [*config.input, *config.output]
    forgotten = any(io.dims and fits(io.dims, dims.get(io.name, ())[1:]) for io in ios)
    return _USUAL_BATCH_SIZE if forgotten else 0


def _has(config: ModelConfig, tensor: ModelTensor) -> bool:
    return any(io.name == tensor.name for io in config.input)


def _block(tensor: ModelTensor, max_batch_size: int) -> str:
    full = tensor.dims or (1,)  # a scalar is written as one element
    dims = as_field("dims", tensor.dims[1:] if max_batch_size > 0 else full)
    optional = " optional: true" if tensor.optional else ""
    return f'{{ name: "{tensor.name}" data_type: {tensor.written_type} {dims}{optional} }}'
