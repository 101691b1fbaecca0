"""Tensors of a model that no client sends or gets: the server fills and keeps them itself."""

from collections.abc import Iterator

from charonia.config.schema import ModelConfig


def names_given_elsewhere(config: ModelConfig) -> tuple[set[str], set[str]]:
    """Names of inputs and of outputs: batch inputs, sequence controls and states."""
    sequences = config.sequence_batching
    inputs = {name for batch_input in config.batch_input for name in batch_input.target_name}
    inputs.update(control_input.name for control_input in sequences.control_input)
    inputs.update(state.input_name for state in sequences.state)
    return inputs, {state.output_name for state in sequences.state}


def dims_given_elsewhere(config: ModelConfig) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Name and dims, as of an input or output, of every sequence control and state."""
    for control_input in config.sequence_batching.control_input:
        yield control_input.name, CONTROL_DIMS
    for state in config.sequence_batching.state:
        yield state.input_name, tuple(state.dims)
        yield state.output_name, tuple(state.dims)


CONTROL_DIMS = (1,)
"""Each request has one value of a control."""
