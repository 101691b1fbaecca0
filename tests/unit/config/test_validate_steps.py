"""An ensemble and the models of its steps."""

# One case a line reads best as a table.
# ruff: noqa: E501

from collections.abc import Collection, Mapping

import pytest

from charonia.config.pbtxt import Document, parse_pbtxt
from charonia.config.report import Report
from charonia.config.validate_steps import NO_REASONS, StepModel, check_steps_with_models, is_decoupled
from charonia.core.model_id import ModelId

IMAGE = "data_type: TYPE_FP32 dims: [ 3, -1 ]"


def model(name: str, inputs: str, outputs: str, more: str = "max_batch_size: 4") -> StepModel:
    text = f'name: "{name}" {more} input {{ name: "i" {inputs} }} output {{ name: "o" {outputs} }}'
    return StepModel(parse_pbtxt(text, "m").config, (1, 3))


MODELS = {
    "first": model("first", IMAGE, "data_type: TYPE_FP32 dims: 8"),
    "second": model("second", "data_type: TYPE_FP32 dims: 8", "data_type: TYPE_INT64 dims: 1"),
    "whole": model("whole", "data_type: TYPE_FP32 dims: [ -1, 8 ]", "data_type: TYPE_INT64 dims: [ -1, 1 ]", ""),
    "choosy": model("choosy", "data_type: TYPE_INT8 dims: 9 }, input { name: \"mask\" data_type: TYPE_BOOL dims: 1 }, input { name: \"more\" optional: true".replace("},", "}"), "data_type: TYPE_INT64 dims: 1"),
    "stream": model("stream", IMAGE, "data_type: TYPE_FP32 dims: 8", "max_batch_size: 4 model_transaction_policy { decoupled: true }"),
    "streams": StepModel(parse_pbtxt('name: "streams" max_batch_size: 4 ensemble_scheduling { step { model_name: "stream" } }', "m").config, (1,)),
    "pair": model("pair", 'data_type: TYPE_FP32 dims: 8 }, input { name: "j" data_type: TYPE_FP32 dims: -1'.replace("},", "}"), "data_type: TYPE_INT64 dims: 1"),
    "unknown": StepModel(parse_pbtxt('name: "unknown"', "m").config, (1,)),
    "loop": StepModel(parse_pbtxt('name: "loop" ensemble_scheduling { step { model_name: "first" } step { model_name: "e" } }', "m").config, (1,)),
}  # fmt: skip


def step(name: str, reads: str, writes: str, more: str = "", key: str = "i") -> str:
    return f'step {{ model_name: "{name}" {more} input_map {{ key: "{key}" value: "{reads}" }} output_map {{ key: "o" value: "{writes}" }} }}'


def ensemble(*steps: str, size: int = 4) -> Document:
    lines = (
        f'name: "e" platform: "ensemble" max_batch_size: {size}',
        f'input {{ name: "IN" {IMAGE} }} output {{ name: "OUT" data_type: TYPE_INT64 dims: 1 }}',
        "ensemble_scheduling {",
        *steps,
        "}",
    )
    return parse_pbtxt("\n".join(lines), "c")


def check(
    *steps: str, size: int = 4, names: Collection[str] = MODELS, why_not: Mapping[str, str] = NO_REASONS
) -> list[str]:
    document = ensemble(*steps, size=size)
    report = Report(document.places)
    check_steps_with_models(ModelId(document.config.name), document.config, MODELS, names, report, why_not)
    return [str(finding) for finding in report.findings]


FIRST = step("first", "IN", "mid")


@pytest.mark.parametrize(
    "last", [step("second", "mid", "OUT"), step("whole", "mid", "OUT"), step("unknown", "mid", "OUT"), step("second", "mid", "OUT", "model_version: 3")]
)  # fmt: skip
def test_steps_that_fit(last: str) -> None:
    """`whole` takes no batches of its own: its full shape is the batch of the others."""
    assert check(FIRST, last) == []


@pytest.mark.parametrize(
    ("last", "expected"),
    [
        (step("secnd", "mid", "OUT"), "c:5:8: the model 'secnd' of step 2 is in no repository; write model_name: \"second\""),
        (step("nobody", "mid", "OUT"), "c:5:8: the model 'nobody' of step 2 is in no repository; add the model to a repository"),
        (step("second", "mid", "OUT", "model_version: 2"), "c:5:29: step 2 needs version 2 of 'second', which is not served; served are 1, 3; write model_version: -1 for the latest, or one of these"),
        (step("second", "IN", "OUT"), "c:5:30: the ensemble tensor 'IN' has the shape [-1, 8] as input 'i' of step 2 ('second'), and [-1, 3, -1] as input 'IN' of the ensemble; map tensors of one shape; -1 fits any size"),
        (step("first", "IN", "OUT"), "c:5:64: the ensemble tensor 'OUT' is TYPE_FP32 as output 'o' of step 2 ('first'), and TYPE_INT64 as output 'OUT' of the ensemble; map tensors of one datatype, or convert in a step between"),
        (step("loop", "mid", "OUT"), "c:5:8: the ensemble needs itself: e → loop → e; take one of the steps out"),
        (step("e", "mid", "OUT"), "c:5:8: the model 'e' of step 2 is in no repository; add the model to a repository"),
    ],
)  # fmt: skip
def test_steps_that_do_not_fit(last: str, expected: str) -> None:
    found = check(FIRST, last)
    assert expected in found


def test_a_name_that_the_model_does_not_have_is_told_once() -> None:
    found = check(FIRST, step("second", "mid", "OUT", key="input"))
    assert found == [
        "c:5:30: step 2 ('second') has no input 'input' for the ensemble tensor 'mid'; its inputs are i; write key: \"i\"",
    ]


# one of a step's maps, the remedies of what is found
WRONG_KEYS: dict[str, tuple[str, list[str]]] = {
    "near one that is given": ('input_map { key: "mask" value: "IN" } input_map { key: "masks" value: "mid" }', ['write key: "i"']),
    "near one that is not given": ('input_map { key: "i" value: "mid" } input_map { key: "maks" value: "flags" }', ['write key: "mask"']),
    "another is missing too": ('input_map { key: "maks" value: "flags" }', ['write key: "mask"', 'add input_map { key: "i" value: "…" }']),
    "near none": ('input_map { key: "xyz" value: "flags" }', ['write key: "i"', 'add input_map { key: "i" value: "…" }', 'add input_map { key: "mask" value: "…" }']),
    "the wrong way round": ('input_map { key: "mid" value: "mask" } input_map { key: "i" value: "mid" }', ['write key: "mask" value: "mid": the key is the model\'s name, the value the ensemble\'s']),
    "a name of the model for a tensor that nobody writes": ('input_map { key: "flags" value: "mask" } input_map { key: "i" value: "mid" }', ['write key: "mask"']),
    "both misspelt": ('input_map { key: "ii" value: "mid" } input_map { key: "maks" value: "flags" }', ['write key: "i"', 'write key: "mask"']),
}  # fmt: skip


@pytest.mark.parametrize("row", WRONG_KEYS)
def test_a_wrong_key_and_the_input_that_it_means_are_one_mistake(row: str) -> None:
    maps, remedies = WRONG_KEYS[row]
    document = ensemble(FIRST, f'step {{ model_name: "choosy" {maps} output_map {{ key: "o" value: "OUT" }} }}')
    report = Report(document.places)
    check_steps_with_models(ModelId(document.config.name), document.config, MODELS, MODELS, report)
    keys = [
        finding for finding in report.findings if "has no input" in finding.message or "gets nothing" in finding.message
    ]
    assert sorted(finding.remedy for finding in keys) == sorted(remedies)


def test_key_and_value_the_wrong_way_round() -> None:
    found = check(FIRST, step("second", "i", "OUT", key="mid"))
    assert 'write key: "i" value: "mid": the key is the model\'s name, the value the ensemble\'s' in found[0]


SHARED = {
    "net": StepModel(parse_pbtxt("""
        input [ { name: "INPUT0" data_type: TYPE_FP32 dims: 8 }, { name: "INPUT1" data_type: TYPE_FP32 dims: 8 } ]
        output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: 8 }, { name: "OUTPUT1" data_type: TYPE_FP32 dims: 8 } ]
    """, "m").config, (1,)),
    "last": StepModel(parse_pbtxt("""
        input [ { name: "INPUT0" data_type: TYPE_FP32 dims: 8 } ] output [ { name: "OUTPUT0" data_type: TYPE_FP32 dims: 8 } ]
    """, "m").config, (1,)),
}  # fmt: skip
SWAPPED = 'write key: "%s" value: "%s": the key is the model\'s name, the value the ensemble\'s'


# what maps have, of `net` and of `last`: key and value of each entry; and the remedies
SHARED_NAMES: dict[str, tuple[str, str, list[str]]] = {
    "lower case": ("input0 INPUT0, input1 INPUT1 → output0 mid, output1 OUTPUT1", "INPUT0 mid → output0 OUTPUT0", ['write key: "INPUT0"', 'write key: "INPUT1"', 'write key: "OUTPUT0"', 'write key: "OUTPUT1"', 'write key: "OUTPUT0"']),
    "nearly the name": ("INPUT0 INPUT0, INPUT INPUT1 → OUT0 OUTPUT0, OUTPUT1 OUTPUT1", "INPUT0 OUTPUT0 → OUTPUT OUTPUT0", ['write key: "INPUT1"', 'write key: "OUTPUT0"', 'write key: "OUTPUT0"']),
    "another shared name": ("INPUT2 INPUT0, INPUT1 INPUT1 → OUTPUT2 OUTPUT0, OUTPUT1 OUTPUT1", "INPUT0 OUTPUT0 → OUTPUT0 x", ['write key: "INPUT0"', 'write key: "OUTPUT0"']),
    "a tensor between steps has the model's name": ("INPUT0 INPUT0, INPUT1 INPUT1 → output OUTPUT0, OUTPUT1 OUTPUT1", "INPUT0 OUTPUT0 → OUTPUT0 x", ['write key: "OUTPUT0"']),
    "swapped between steps": ("INPUT0 INPUT0, INPUT1 INPUT1 → mid OUTPUT0, OUTPUT1 OUTPUT1", "INPUT0 mid → OUTPUT0 x", [SWAPPED % ("OUTPUT0", "mid")]),
}  # fmt: skip


def entries(side: str, written: str) -> str:
    pairs = (entry.split() for entry in written.split(","))
    return " ".join(f'{side}_map {{ key: "{key}" value: "{value}" }}' for key, value in pairs)


@pytest.mark.parametrize("row", SHARED_NAMES)
def test_a_swap_is_proposed_only_where_it_makes_sense(row: str) -> None:
    """The ensemble, and the model, have tensors of the same names."""
    *maps, remedies = SHARED_NAMES[row]
    steps = ""
    for name, each in zip(("net", "last"), maps, strict=True):
        reads, _, writes = each.partition("→")
        steps += f'step {{ model_name: "{name}" {entries("input", reads)} {entries("output", writes)} }}'
    ios = 'input [ { name: "INPUT0" }, { name: "INPUT1" } ] output { name: "OUTPUT1" }'
    document = parse_pbtxt(f'name: "e" platform: "ensemble" {ios} ensemble_scheduling {{ {steps} }}', "c")
    report = Report(document.places)
    check_steps_with_models(ModelId(document.config.name), document.config, SHARED, SHARED, report)
    assert sorted(each.remedy for each in report.findings if " has no " in each.message) == sorted(remedies)


def test_a_tensor_between_steps_that_both_have_the_wrong_way_round() -> None:
    first = 'step { model_name: "first" input_map { key: "i" value: "IN" } output_map { key: "mid" value: "o" } }'
    found = check(first, step("second", "i", "OUT", key="mid"))
    assert [each.split("; write ")[1] for each in found] == [
        f'key: "{name}" value: "mid": the key is the model\'s name, the value the ensemble\'s' for name in ("o", "i")
    ]


def test_only_required_inputs_must_be_given() -> None:
    found = check(FIRST, step("choosy", "mid", "OUT"))
    assert [each.split(": ", 1)[1].split(";")[0] for each in found] == [
        "the ensemble tensor 'mid' is TYPE_INT8 as input 'i' of step 2 ('choosy'), and TYPE_FP32 as output 'o' of step 1 ('first')",
        "the ensemble tensor 'mid' has the shape [-1, 9] as input 'i' of step 2 ('choosy'), and [-1, 8] as output 'o' of step 1 ('first')",
        "step 2 ('choosy') gets nothing for its input 'mask'",
    ]


def test_a_larger_batch_than_a_model_takes() -> None:
    found = check(FIRST, step("second", "mid", "OUT"), size=8)
    assert found == [
        f"c:{line}:1: max_batch_size of the ensemble is 8 (line 1), and '{name}' of step {line - 3} takes at most 4; "
        "write max_batch_size: 4 in the ensemble"
        for line, name in ((4, "first"), (5, "second"))
    ]


def test_a_model_that_does_not_serve_is_told_with_its_reason() -> None:
    found = check(FIRST, step("late", "mid", "OUT"), names=[*MODELS, "late", "later"], why_not={"late": "no such file"})
    assert found == ["c:5:8: step 2 needs model 'late', which does not serve: no such file"]


@pytest.mark.parametrize(
    ("missing", "remedy"),
    [
        ("classifer", 'write model_name: "classifier"'),
        ("Classifier", 'write model_name: "classifier"'),
        ("firsts", "add the model to a repository"),  # `first` is a step already, and `e` the ensemble itself
        ("ee", "add the model to a repository"),
    ],
)
@pytest.mark.parametrize("why_not", ["", "no repository has it"])
def test_a_model_that_is_nowhere_may_be_any_of_the_repositories_but_the_steps(
    missing: str, remedy: str, why_not: str
) -> None:
    reasons = {missing: why_not} if why_not else NO_REASONS
    (found,) = check(FIRST, step(missing, "mid", "OUT"), names=["classifier", "e", "first"], why_not=reasons)
    assert found.endswith(f"; {remedy}")
    assert why_not in found


STREAM = step("stream", "IN", "mid")


def both(first: str, second: str) -> str:
    return step("pair", first, "OUT", f'input_map {{ key: "j" value: "{second}" }}')


@pytest.mark.parametrize(
    ("steps", "decoupled"),
    [
        ((FIRST, step("second", "mid", "OUT")), False),
        ((STREAM, step("second", "mid", "OUT")), True),
        ((step("streams", "IN", "mid"), step("second", "mid", "OUT")), True),
        ((STREAM, both("mid", "mid")), True),
        ((FIRST, step("first", "IN", "again"), both("mid", "again")), False),
    ],
)
def test_an_ensemble_is_decoupled_as_soon_as_a_step_is(steps: tuple[str, ...], decoupled: bool) -> None:
    assert check(*steps) == []
    assert is_decoupled(ensemble(*steps).config, MODELS) is decoupled


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        (
            (STREAM, FIRST.replace("mid", "once"), both("mid", "once")),
            "step 3 ('pair') takes 'mid' with each response of step 1 ('stream'), and 'once' once: they don't come in pairs",
        ),
        (
            (STREAM, step("streams", "IN", "other"), both("mid", "other")),
            "step 3 ('pair') takes 'mid' with each response of step 1 ('stream'), and 'other' with each response of "
            "step 2 ('streams'): they don't come in pairs",
        ),
    ],
)
def test_no_step_takes_tensors_that_do_not_come_in_pairs(steps: tuple[str, ...], expected: str) -> None:
    (found,) = check(*steps)
    assert expected in found
