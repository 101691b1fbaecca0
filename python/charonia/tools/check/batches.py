"""Batches of an ensemble's requests that a step can't take, because its model takes the shape as it stands."""

from collections.abc import Mapping

from charonia.config.model_tensor import OPEN, shown
from charonia.config.report import Report
from charonia.config.schema import ModelConfig, ModelInput
from charonia.config.steps import model_of
from charonia.config.validate_steps import StepModel
from charonia.core.model_id import ModelId

Dims = tuple[int, ...]


def check_batches(config: ModelConfig, models: Mapping[ModelId, StepModel], report: Report) -> None:
    """Warn of each step for which only requests of certain sizes fit. `config` has nothing that does not fit at all.

    Args:
        models: by name; of a model whose inputs are not known, nothing is said.
    """
    if config.max_batch_size < 2:
        return
    rows = _rows(config, models)
    for index, step in enumerate(config.ensemble_scheduling.step):
        model = models.get(model_of(step))
        if model is None or model.config.max_batch_size > 0:
            continue
        inputs = {io.name: io for io in model.config.input}
        for key, tensor in sorted(step.input_map.items()):
            size = _only_size(inputs[key], rows[tensor]) if key in inputs and tensor in rows else None
            if size is not None:
                message = (
                    f"requests of {'more than one row' if size == 1 else f'other than {size} rows'} fail in step "
                    f"{index + 1}: '{step.model_name}' has max_batch_size 0 and takes its input '{key}' as "
                    f"{shown(inputs[key].dims)}, while max_batch_size of the ensemble is {config.max_batch_size}"
                    f"{report.line_of('max_batch_size')}"
                )
                remedy = "write max_batch_size: 1 in the ensemble, or let the model take batches"
                report.warn(f'ensemble_scheduling.step[{index}].input_map["{key}"]', message, remedy)


def _rows(config: ModelConfig, models: Mapping[ModelId, StepModel]) -> Mapping[str, Dims]:
    """The tensors that surely have as many rows as the request, with the dims of a row: the ensemble's inputs, and what
    models that take batches make of such tensors."""
    rows = {io.name: tuple(io.reshape.shape if io.HasField("reshape") else io.dims) for io in config.input}
    steps = [
        (step, models[model_of(step)].config) for step in config.ensemble_scheduling.step if model_of(step) in models
    ]
    batching = [(step, model) for step, model in steps if model.max_batch_size > 0]
    for _ in batching:  # each time at least one more is reached, in whatever order they stand
        for step, model in batching:
            if any(tensor in rows for tensor in step.input_map.values()):
                dims = {io.name: tuple(io.dims) for io in model.output}
                rows |= {tensor: dims[key] for key, tensor in step.output_map.items() if key in dims}
    return rows


def _only_size(io: ModelInput, row: Dims) -> int | None:
    """The one number of rows that fits an input of a model without batches, None where any may."""
    dims = tuple(io.dims)
    if len(dims) == len(row) + 1:
        return None if dims[0] == OPEN else dims[0]
    return 1  # the batch dimension is taken away where it is 1
