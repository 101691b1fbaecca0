"""Where a configuration and the model file contradict one another: both sides shown, and what to write."""

from collections.abc import Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import TYPE_CHECKING

from charonia.config.contradict_batch_inputs import check_batch_inputs
from charonia.config.contradict_dims import as_field, check_dims
from charonia.config.contradict_sequences import check_sequences, inputs_meant, unless_sent
from charonia.config.findings import Finding
from charonia.config.fitting import fitting_lines
from charonia.config.given_elsewhere import names_given_elsewhere
from charonia.config.model_tensor import OPEN, ModelTensor, shown
from charonia.config.places import NO_PLACES, Places
from charonia.config.report import Report
from charonia.config.schema import DataType, ModelConfig, ModelInput, ModelOutput
from charonia.core.datatypes import DATATYPES

if TYPE_CHECKING:
    Io = ModelInput | ModelOutput


def check_against_model(
    config: ModelConfig,
    inputs: Sequence[ModelTensor],
    outputs: Sequence[ModelTensor],
    *,
    model_file: str,
    places: Places = NO_PLACES,
) -> list[Finding]:
    """Everything in `config` that the model file contradicts; each finding shows both sides and what to write.

    Args:
        model_file: the name for messages, as `model.onnx`.
        places: where the fields of `config` were written.
    """
    check = _Check(config, model_file, places)
    given_inputs, given_outputs = names_given_elsewhere(config)
    given_inputs |= inputs_meant(config, inputs)
    check.names("input", config.input, inputs, outputs, given_inputs, must_have_all=True)
    check.names("output", config.output, outputs, inputs, given_outputs, must_have_all=False)
    check.batching(inputs, outputs)
    for kind, ios, tensors in (("input", config.input, inputs), ("output", config.output, outputs)):
        check.types_and_dims(kind, ios, tensors)
    check_batch_inputs(config, inputs, model_file, check.report)
    check_sequences(config, inputs, outputs, check.fixed, model_file, places, check.report)
    findings = check.report.findings
    if findings:
        # Once for all of them: what is wrong in several places is often one misunderstanding.
        snippet = fitting_lines(config, inputs, outputs, model_file)
        findings[-1] = replace(findings[-1], snippet=snippet)
    return findings


class _Check:
    def __init__(self, config: ModelConfig, model_file: str, places: Places) -> None:
        self._config = config
        self._file = model_file
        self._places = places
        self.fixed: set[str] = set()
        self._scattered = {name for batch_output in config.batch_output for name in batch_output.target_name}
        self.report = Report(places)

    def names(
        self,
        kind: str,
        ios: "Sequence[Io]",
        tensors: Sequence[ModelTensor],
        other_side: Sequence[ModelTensor],
        given: set[str],
        *,
        must_have_all: bool,
    ) -> None:
        known = {tensor.name for tensor in tensors}
        there = {io.name for io in (self._config.output if kind == "input" else self._config.input)}
        here = {io.name for io in ios}
        swapped = there - {tensor.name for tensor in other_side}  # stands on the wrong side, which is said there
        missing = [each for each in tensors if each.name not in here | given | swapped and not each.optional]
        for index, io in enumerate(ios):
            if io.name not in known and io.name not in self._scattered:
                meant = self._unknown_name(kind, f"{kind}[{index}].name", io.name, missing, tensors, other_side)
                missing = [tensor for tensor in missing if tensor.name != meant]
        if must_have_all:
            for tensor in missing:
                text = f"{self._file} has the {kind} '{tensor.name}', which the configuration leaves out"
                beside = unless_sent(self._config, tensor) if kind == "input" else ""
                self.report.error(kind, text, f"add {kind} {self._written(tensor)}{beside}")

    def _unknown_name(
        self,
        kind: str,
        path: str,
        name: str,
        missing: Sequence[ModelTensor],
        tensors: Sequence[ModelTensor],
        other_side: Sequence[ModelTensor],
    ) -> str:
        """Report a name that the model does not have; returns the one that was probably meant, or ""."""
        names = [tensor.name for tensor in tensors]
        text = f"{self._file} has no {kind} '{name}'; its {kind}s are {', '.join(names) or 'none'}"
        if any(tensor.name == name for tensor in other_side):
            other = "output" if kind == "input" else "input"
            remedy = f"'{name}' is an {other} of the model: move it from {kind} to {other}"
            self.report.error(path, text, remedy)
            return ""
        open_names = [tensor.name for tensor in missing]
        near = get_close_matches(name, open_names, 1, 0.5) or (open_names if len(open_names) == 1 else [])
        self.report.error(path, text, f'write name: "{near[0]}"' if near else "write one of these names")
        return near[0] if near else ""

    def batching(self, inputs: Sequence[ModelTensor], outputs: Sequence[ModelTensor]) -> None:
        """max_batch_size > 0 needs an open first dimension in every tensor that is used."""
        size = self._config.max_batch_size
        if size < 1:
            return
        given_inputs, given_outputs = names_given_elsewhere(self._config)
        used_inputs = given_inputs | {
            io.name for io in self._config.input if not getattr(io, "allow_ragged_batch", False)
        }
        used_outputs = (given_outputs | {io.name for io in self._config.output}) - self._scattered
        sides = (("input", used_inputs, inputs), ("output", used_outputs, outputs))
        fixed = [
            (kind, tensor)
            for kind, used, tensors in sides
            for tensor in tensors
            if tensor.name in used and not tensor.can_batch
        ]
        if not fixed:
            return
        self.fixed = {f"{kind} {tensor.name}" for kind, tensor in fixed}
        whose = ", ".join(f"{kind} '{tensor.name}' {shown(tensor.dims)}" for kind, tensor in fixed)
        text = (
            f"max_batch_size is {size}, but {self._file} takes no batches: the first dimension is not open in {whose}"
        )
        kind, first = fixed[0]
        full = f"dims: {shown(first.dims or (1,))} for {kind} '{first.name}'"
        remedy = (
            f"write max_batch_size: 0 and the full shapes ({full}), or export the model with an open first dimension"
        )
        self.report.error("max_batch_size", text, remedy)

    def types_and_dims(self, kind: str, ios: "Sequence[Io]", tensors: Sequence[ModelTensor]) -> None:
        by_name = {tensor.name: tensor for tensor in tensors}
        for index, io in enumerate(ios):
            tensor = by_name.get(io.name)
            if tensor is None:
                continue
            path = f"{kind}[{index}]"
            self._datatype(kind, path, io, tensor)
            if isinstance(io, ModelInput) and io.allow_ragged_batch:
                self._ragged(path, io, tensor)
            elif f"{kind} {io.name}" not in self.fixed and io.name not in self._scattered:
                check_dims(self._config, kind, path, io, tensor, self._file, self._places, self.report)

    def _datatype(self, kind: str, path: str, io: "Io", tensor: ModelTensor) -> None:
        datatype = DATATYPES.get(tensor.datatype)
        if io.data_type == 0 or datatype is None or io.data_type == datatype.number:
            return
        got = DataType.Name(io.data_type)
        text = f"data_type of {kind} '{io.name}' is {got}, but {self._file} has {datatype.config_name}"
        self.report.error(f"{path}.data_type", text, f"write data_type: {datatype.config_name}")

    def _ragged(self, path: str, io: ModelInput, tensor: ModelTensor) -> None:
        if tensor.dims != (OPEN,):
            needs = "has allow_ragged_batch, which needs the shape [-1]"
            text = f"input '{io.name}' {needs}; {self._file} has {shown(tensor.dims)}"
            self.report.error(f"{path}.allow_ragged_batch", text, "remove allow_ragged_batch, or change the model")

    def _written(self, tensor: ModelTensor) -> str:
        dims = tensor.dims[1:] if self._config.max_batch_size > 0 and tensor.can_batch else tensor.dims
        return f'{{ name: "{tensor.name}" data_type: {tensor.written_type} {as_field("dims", dims)} }}'
