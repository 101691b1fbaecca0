"""`charonia check` warns of an ensemble with batches over a model that takes none."""

# One case a line reads best as a table.
# ruff: noqa: E501

import pytest

from charonia.config.pbtxt import parse_pbtxt
from charonia.config.report import Report
from charonia.config.validate_steps import StepModel, check_steps_with_models
from charonia.core.model_id import ModelId
from charonia.tools.check.batches import check_batches


def model(name: str, takes: str, gives: str, size: int = 0) -> StepModel:
    tensors = f'input {{ name: "i" data_type: TYPE_FP32 dims: {takes} }} output {{ name: "o" data_type: TYPE_FP32 dims: {gives} }}'
    return StepModel(parse_pbtxt(f'name: "{name}" max_batch_size: {size} {tensors}', name).config, (1,))


MODELS = {
    "rows": model("rows", "16", "16", size=8),
    "any": model("any", "[ -1, 16 ]", "[ -1, 16 ]"),
    "one": model("one", "[ 1, 16 ]", "[ 1, 16 ]"),
    "four": model("four", "[ 4, 16 ]", "[ 4, 16 ]"),
    "bare": model("bare", "16", "16"),
    "open": model("open", "-1", "-1"),
    "first": model("first", "[ -1, 16 ]", "[ 1, 16 ]"),
}


def warnings(*names: str, size: int = 8, backwards: bool = False) -> list[tuple[str, str]]:
    tensors = ["IN", *(f"t{number}" for number in range(1, len(names))), "OUT"]
    steps = [
        f'step {{ model_name: "{name}" input_map {{ key: "i" value: "{tensors[at]}" }} output_map {{ key: "o" value: "{tensors[at + 1]}" }} }}'
        for at, name in enumerate(names)
    ]
    ios = " ".join(
        f'{kind} {{ name: "{name}" data_type: TYPE_FP32 dims: 16 }}'
        for kind, name in (("input", "IN"), ("output", "OUT"))
    )
    text = f'name: "e" max_batch_size: {size} {ios} ensemble_scheduling {{ {" ".join(reversed(steps) if backwards else steps)} }}'
    document = parse_pbtxt(text, "c")
    report = Report(document.places)
    check_steps_with_models(ModelId(document.config.name), document.config, MODELS, MODELS, report)
    assert not report.findings, "what does not fit at all is another matter"
    check_batches(document.config, MODELS, report)
    assert not any(finding.is_error for finding in report.findings)
    return [(finding.path, finding.message.partition(":")[0]) for finding in report.findings]


@pytest.mark.parametrize(
    ("names", "step", "said"),
    [
        (["one"], 1, "requests of more than one row fail in step 1"),
        (["bare"], 1, "requests of more than one row fail in step 1"),
        (["open"], 1, "requests of more than one row fail in step 1"),
        (["four"], 1, "requests of other than 4 rows fail in step 1"),
        (["rows", "one"], 2, "requests of more than one row fail in step 2"),
        (["rows", "rows", "bare", "rows"], 3, "requests of more than one row fail in step 3"),
    ],
)
def test_a_step_that_takes_no_batch(names: list[str], step: int, said: str) -> None:
    assert warnings(*names) == [(f'ensemble_scheduling.step[{step - 1}].input_map["i"]', said)]


def test_the_order_of_the_steps_does_not_matter() -> None:
    assert warnings("rows", "rows", "one", backwards=True) == [
        ('ensemble_scheduling.step[0].input_map["i"]', "requests of more than one row fail in step 1")
    ]


@pytest.mark.parametrize("names", [["any"], ["rows"], ["rows", "any", "rows"], ["first", "one"]])
def test_a_step_that_takes_any_batch_or_one_whose_rows_are_not_known(names: list[str]) -> None:
    assert warnings(*names) == []


@pytest.mark.parametrize("size", [0, 1])
def test_an_ensemble_without_batches(size: int) -> None:
    assert warnings("rows", "bare" if size == 0 else "one", size=size) == []
