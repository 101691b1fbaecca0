"""Inputs that the server makes of a batch (`batch_input`) against those that the model file has."""

from collections.abc import Sequence
from difflib import get_close_matches

from charonia.config.model_tensor import OPEN, ModelTensor, shown
from charonia.config.report import Report
from charonia.config.schema import BatchInput, DataType, ModelConfig
from charonia.core.datatypes import DATATYPES


def check_batch_inputs(config: ModelConfig, inputs: Sequence[ModelTensor], model_file: str, report: Report) -> None:
    """Report targets that the model does not have, or has with another datatype or rank."""
    by_name = {tensor.name: tensor for tensor in inputs}
    for index, batch_input in enumerate(config.batch_input):
        path = f"batch_input[{index}]"
        for name in batch_input.target_name:
            tensor = by_name.get(name)
            if tensor is None:
                _unknown(name, path, by_name, model_file, report)
            else:
                _check_type(batch_input, tensor, path, model_file, report)
                _check_rank(batch_input, tensor, path, model_file, report)


def _unknown(name: str, path: str, names: dict[str, ModelTensor], model_file: str, report: Report) -> None:
    near = get_close_matches(name, names, 1, 0.5)
    message = f"batch_input makes '{name}', and the inputs of {model_file} are {', '.join(names) or 'none'}"
    report.error(f"{path}.target_name", message, f'write target_name: "{near[0]}"' if near else "write one of these")


def _check_type(batch_input: BatchInput, tensor: ModelTensor, path: str, model_file: str, report: Report) -> None:
    datatype = DATATYPES.get(tensor.datatype)
    if datatype is not None and datatype.number != batch_input.data_type:
        got = DataType.Name(batch_input.data_type)
        message = f"batch_input makes '{tensor.name}' with {got}, and {model_file} has {datatype.config_name}"
        report.error(f"{path}.data_type", message, f"write data_type: {datatype.config_name}, or change the model")


def _check_rank(batch_input: BatchInput, tensor: ModelTensor, path: str, model_file: str, report: Report) -> None:
    made = (OPEN, OPEN) if batch_input.kind == BatchInput.BATCH_ITEM_SHAPE else (OPEN,)
    if len(tensor.dims) != len(made):
        kind = BatchInput.Kind.Name(batch_input.kind)
        message = (
            f"{kind} makes '{tensor.name}' with the shape {shown(made)}, and {model_file} has {shown(tensor.dims)}"
        )
        report.error(f"{path}.kind", message, "choose another kind, or change the model")
