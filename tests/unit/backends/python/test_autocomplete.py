"""`auto_complete_config`, in both forms."""

from dataclasses import replace

import numpy as np
import pytest

from charonia.backends.base import InstanceSpec
from charonia.backends.python.autocomplete import may_complete
from charonia.config.findings import ConfigError
from charonia.config.pbtxt import parse_pbtxt
from charonia.core.errors import InvalidArgumentError

SPEC = InstanceSpec("m_0", "KIND_CPU", "cpu", 1)

MODEL = """
class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        {body}
        return config

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.array([os.getpid()], np.int64))]) for _ in requests]
"""
ADD = (
    'config.add_input({"name": "X", "data_type": "TYPE_FP32", "dims": [np.int64(4)], "optional": True}); '
    'config.add_output({"name": "Y", "data_type": "TYPE_INT64", "dims": [1]}); '
    "config.set_max_batch_size(8); config.set_dynamic_batching()"
)


def complete(workshop, form, body, **options):
    workshop.write(MODEL.format(body=body))
    context = workshop.context(form=form, **{"inputs": "", "outputs": "", **options})
    return context, workshop.backend.complete_config(context)


def test_inputs_outputs_batch_size_and_batching_are_filled_in(workshop, form):
    context, config = complete(workshop, form, ADD)
    assert config.max_batch_size == 8
    assert config.HasField("dynamic_batching")
    assert [(io.name, io.data_type, list(io.dims), io.optional) for io in config.input] == [("X", 11, [4], True)]
    assert [(io.name, io.data_type, list(io.dims)) for io in config.output] == [("Y", 9, [1])]
    assert not context.config.input, "the given configuration must stay as it is"
    assert config.parameters["execution"].string_value == form


def test_what_is_set_stays(workshop, form):
    options = {"inputs": "X:TYPE_FP32:4", "outputs": "Y:TYPE_INT64:1 Z:TYPE_FP32:2", "max_batch_size": 2}
    _, config = complete(workshop, form, ADD, **options)
    assert config.max_batch_size == 8
    assert [io.name for io in config.output] == ["Y", "Z"]


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ('config.add_input({"name": "X", "data_type": "TYPE_INT8", "dims": [4]})', "data_type TYPE_FP32"),
        ('config.add_input({"name": "X", "data_type": "TYPE_FP32", "dims": [5]})', "dims [4] in the configuration"),
        ('config.add_input({"name": "X", "dims": [4]})', "missing the property 'data_type'"),
        ('config.add_output({"name": "Y", "data_type": "TYPE_FP32", "dims": [4], "label": 1})', "property 'label'"),
        ("config.set_max_batch_size(1)", "the configuration specified max_batch_size 2"),
        ('config.set_model_transaction_policy({"other": True})', "'decoupled' only, got 'other'"),
        ("raise RuntimeError('broken')", "RuntimeError: broken"),
        ("sys.exit(1)", "sys.exit(1)"),
        ("return None", "it must return the ModelConfig, got NoneType"),
        (
            "config.as_dict()['input'][0]['no_such_field'] = 1",
            "returned a wrong configuration: input[0]: ModelInput has no field 'no_such_field'",
        ),
        (
            "config.as_dict()['max_batch_size'] = 'many'",
            "max_batch_size: 'max_batch_size' takes a whole number, got many",
        ),
    ],
)
def test_contradictions_and_failures_name_the_model_and_the_reason(workshop, form, body, text):
    with pytest.raises(InvalidArgumentError) as caught:
        complete(workshop, form, body, inputs="X:TYPE_FP32:4", max_batch_size=2)
    assert text in str(caught.value)
    assert "model 'm'" in str(caught.value)


def test_the_process_that_completed_serves_as_the_first_instance(workshop):
    workshop.write(MODEL.format(body=ADD + "; pb_utils.Logger.log_info('completed in %d' % os.getpid())"))
    context = workshop.context(inputs="", outputs="")
    workshop.backend.complete_config(context)
    pid = int(workshop.log.wait_for("completed in").split()[-1])
    model = workshop.backend.load(context)
    instances = [model.create_instance(SPEC) for _ in range(2)]
    pids = [instance._life.child.popen.pid for instance in instances]
    assert pids[0] == pid
    assert pids[1] != pid


def test_a_file_that_has_changed_since_is_loaded_anew(workshop):
    context, _ = complete(workshop, "isolated", ADD)
    workshop.write("""
        class TritonPythonModel:
            def execute(self, requests):
                return [pb_utils.InferenceResponse([pb_utils.Tensor("NEW", np.zeros(1))])]
    """)
    from charonia.testing.batch import make_batch

    instance = workshop.backend.load(context).create_instance(SPEC)
    assert list(make_batch({"X": np.zeros(1, np.float32)}).run(instance).outputs()) == ["NEW"]


def test_a_process_that_dies_in_the_function(workshop):
    with pytest.raises(InvalidArgumentError, match="its process exited with code 3"):
        complete(workshop, "isolated", "os._exit(3)")


def test_metrics_and_logs_work_there_too(workshop, form):
    body = (
        "family = pb_utils.MetricFamily('completions', 'how many', pb_utils.MetricFamily.COUNTER); "
        "family.Metric().increment(1); "
        "pb_utils.Logger.log_info('done')"
    )
    complete(workshop, form, body)
    workshop.log.wait_for("done")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("class TritonPythonModel:\n    def execute(self, r): ...\n", False),
        ("class TritonPythonModel:\n    @staticmethod\n    def auto_complete_config(c): return c\n", True),
        ("class TritonPythonModel(Base): ...\n", True),
        ("from base import TritonPythonModel\n", True),
        ("class TritonPythonModel\n", True),
    ],
)
def test_a_file_that_certainly_has_no_such_function_needs_no_process(tmp_path, text, expected):
    path = tmp_path / "model.py"
    path.write_text(text)
    assert may_complete(path) is expected


CONTRADICTIONS = [
    (
        'config.add_input({"name": "X", "data_type": "TYPE_INT8", "dims": [4]})',
        "m/config.pbtxt:2:20: model 'm': input 'X' has data_type TYPE_FP32 in the configuration, but the model "
        "provides TYPE_INT8 (auto_complete_config), in {model}:8; write data_type: TYPE_INT8, "
        "or change that line of the model",
    ),
    (
        'config.add_input({"name": "X", "data_type": "TYPE_FP32", "dims": [5, -1]})',
        "m/config.pbtxt:2:41: model 'm': input 'X' has dims [4] in the configuration, but the model provides [5, -1] "
        "(auto_complete_config), in {model}:8; write dims: [5, -1], or change that line of the model",
    ),
    (
        "config.set_max_batch_size(1)",
        "m/config.pbtxt:1:1: model 'm': auto_complete_config sets max_batch_size 1, but the configuration specified "
        "max_batch_size 2, in {model}:8; write max_batch_size: 1, or remove it, or change that line of the model",
    ),
    (
        'config.set_model_transaction_policy({"decoupled": True})',
        "m/config.pbtxt:3:28: model 'm': auto_complete_config sets decoupled True, but the configuration says False, "
        "in {model}:8; write decoupled: true, or change that line of the model",
    ),
]


@pytest.mark.parametrize(("body", "expected"), CONTRADICTIONS)
def test_a_contradiction_shows_both_sides_and_both_places(workshop, form, body, expected):
    """Which line of the configuration, which line of the model, and what to write in which."""
    text = (
        'max_batch_size: 2\ninput { name: "X"  data_type: TYPE_FP32 dims: [ 4 ] }\n'
        "model_transaction_policy { decoupled: false }\n"
        f'parameters {{ key: "execution" value {{ string_value: "{form}" }} }}'
    )
    document = parse_pbtxt(text, "m/config.pbtxt")
    document.config.name = "m"
    model = workshop.write(MODEL.format(body=body)) / "model.py"
    context = replace(workshop.context(), config=document.config, places=document.places)
    with pytest.raises(ConfigError) as caught:
        workshop.backend.complete_config(context)
    assert str(caught.value) == expected.format(model=model)


def test_what_it_filled_in_is_noted_with_the_reason(workshop, form):
    context, _ = complete(workshop, form, "config.set_max_batch_size(8)")
    assert [str(each) for each in context.completions] == ["max_batch_size: 8 (auto_complete_config of model.py)"]
