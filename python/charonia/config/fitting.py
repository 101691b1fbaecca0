"""The lines of a configuration that fit a model, to be copied."""

from collections.abc import Sequence

from charonia.config.contradict_dims import as_field
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

    It batches if `config` wants to and the model can. Outputs that the configuration leaves out stay out.
    """
    wanted = {output.name for output in config.output}
    chosen = [tensor for tensor in outputs if tensor.name in wanted] or outputs
    tensors = (*inputs, *chosen)
    if len(tensors) > _MOST_TENSORS:
        return ""
    size = _batch_size(config, tensors) if all(tensor.can_batch for tensor in tensors) else 0
    lines = [f"what fits {model_file}:", f"  max_batch_size: {size}"]
    lines += [f"  input {_block(tensor, size)}" for tensor in inputs if not tensor.optional or _has(config, tensor)]
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
