"""What reading a model's Python file tells, without executing it."""

import sys
import venv
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from charonia.backends.base import ModelContext, ServerFacts
from charonia.backends.python import PythonBackend
from charonia.config.findings import Finding
from charonia.config.pbtxt import parse_pbtxt

TENSORS = """
    input [ { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] } ]
    output [ { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] } ]
"""
GOOD = """
    import numpy as np
    import triton_python_backend_utils as pb_utils

    class TritonPythonModel:
        def initialize(self, args):
            self.args = args

        def execute(self, requests):
            return [pb_utils.InferenceResponse([self.double(request)]) for request in requests]

        def double(self, request):
            array = pb_utils.get_input_tensor_by_name(request, "IN").as_numpy()
            return pb_utils.Tensor("OUT", array * np.float32(2))

        def finalize(self):
            pass
"""
Look = Callable[..., tuple[Finding, ...]]


@pytest.fixture
def look(tmp_path: Path) -> Look:
    """Writes `code` as the model's file and looks at it."""

    def run(code: str | bytes, config: str = TENSORS, files: tuple[str, ...] = ()) -> tuple[Finding, ...]:
        folder = tmp_path / "m" / "1"
        folder.mkdir(parents=True)
        (folder / "model.py").write_bytes(code if isinstance(code, bytes) else dedent(code).encode())
        for name in files:
            (folder / name).touch()
        document = parse_pbtxt(f'name: "m" backend: "python" {config}', "config.pbtxt")
        context = ModelContext(
            "m", 1, document.config, folder.parent, folder, {}, ServerFacts(), places=document.places
        )
        return PythonBackend().inspect(context).findings

    return run


def one(findings: tuple[Finding, ...]) -> Finding:
    (finding,) = findings
    return finding


def test_a_good_model_has_nothing_to_be_said(look: Look) -> None:
    assert look(GOOD) == ()


WITHOUT = "class TritonPythonModel:\n    def execute(self, requests):\n        return []\n"
WRONG: dict[str, tuple[str | bytes, int, tuple[str, ...]]] = {
    "a syntax error": (GOOD.replace("execute(self, requests):", "execute(self, requests)"), 9, ("SyntaxError",)),
    "a tab among spaces": ("class A:\n    x = 1\n\ty = 2\n", 3, ("TabError",)),
    "a class of nearly the right name": (
        GOOD.replace("TritonPythonModel", "TritonPythonmodel"),
        5,
        ("no class named TritonPythonModel", "it has 'TritonPythonmodel'", "name that class TritonPythonModel"),
    ),
    "a class of quite another name": (
        GOOD.replace("TritonPythonModel", "Doubler"),
        5,
        ("it has 'Doubler'", "name that class TritonPythonModel"),
    ),
    "functions without a class": (
        "def execute(requests):\n    return []\n",
        1,
        ("its 'execute' is no method", "put it into class TritonPythonModel"),
    ),
    "execute misspelt": (
        GOOD.replace("execute(", "excute("),
        9,
        ("no method named execute", "it has 'excute'", "name it execute"),
    ),
    "no execute at all": ("class TritonPythonModel:\n    pass\n", 1, ("no method named execute", "def execute(self,")),
    "initialize without args": (
        GOOD.replace("initialize(self, args)", "initialize(self)"),
        6,
        ("called as initialize(self, args)", "takes (self)"),
    ),
    "execute without self": (
        GOOD.replace("execute(self, requests)", "execute(requests)"),
        9,
        ("called as execute(self, requests)", "takes (requests)"),
    ),
    "a package that is not installed": (
        "import nowhere.at.all\n" + WITHOUT,
        1,
        ("'nowhere' is not installed", sys.executable, "pip install nowhere"),
    ),
    "a package of another name": ("from sklearn import svm\n" + WITHOUT, 1, ("'sklearn'", "install scikit-learn")),
    "a package imported in initialize": (
        GOOD.replace("self.args = args", "import nowhere"),
        7,
        ("'nowhere' is not installed",),
    ),
    "a helper that is missing": ("import helpers\n" + WITHOUT, 1, ("'helpers'", "put 'helpers.py' into")),
}


@pytest.mark.parametrize("case", WRONG)
def test_is_an_error_with_its_place(look: Look, case: str) -> None:
    code, line, said = WRONG[case]
    finding = one(look(code))
    assert finding.is_error
    assert finding.place is not None
    assert (Path(finding.place.file).name, finding.place.line) == ("model.py", line)
    for each in said:
        assert each in str(finding)


@pytest.mark.parametrize(
    "code",
    ["x = " + "-" * 500_000 + "1\n", "if 1:\n  pass\n" + "elif 2:\n  pass\n" * 20_000, "x = " + "1 + " * 100_000 + "1"],
)
def test_code_that_the_parser_gives_up_is_an_error(look: Look, code: str) -> None:
    assert "nested too deep" in one(look(code)).message


def test_an_empty_file_is_told_what_a_model_is(look: Look) -> None:
    finding = one(look(""))
    assert "empty" in finding.message
    assert "class TritonPythonModel" in finding.remedy


@pytest.mark.parametrize("code", [b"\0\0\0", b"\xff\xfe\0", b"PK\x03\x04" + bytes(range(256))])
def test_what_is_no_text_is_no_python(look: Look, code: bytes) -> None:
    assert one(look(code)).is_error


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("initialize", "initialise"), ("'initialise' is never called", "initialize?")),
        (('name(request, "IN")', 'name(request, "in")'), ("reads the input 'in'", "inputs are IN", "mean 'IN'")),
        (('Tensor("OUT"', 'Tensor("OUTPUT"'), ("makes the output 'OUTPUT'", "outputs are OUT")),
        (("            array =", "            import nowhere\n            array ="), ("'nowhere' is not installed",)),
    ],
    ids=["a method of nearly the right name", "an unknown input", "an unknown output", "an import in a later call"],
)
def test_what_loads_and_will_fail_is_a_warning(look: Look, change: tuple[str, str], said: tuple[str, ...]) -> None:
    assert change[0] in GOOD
    finding = one(look(GOOD.replace(*change)))
    assert not finding.is_error
    for each in said:
        assert each in str(finding)


def test_execute_that_returns_nothing(look: Look) -> None:
    code = GOOD.replace("return [pb_utils.InferenceResponse([self", "[pb_utils.InferenceResponse([self")
    assert "returns nothing" in one(look(code)).message


@pytest.mark.parametrize(
    ("method", "said"),
    [
        ("sequence_end(self, correlation_id, reason)", "did you mean sequence_ended?"),
        ("sequence_ended(self, correlation_id)", "write def sequence_ended(self, correlation_id, reason):"),
        ("isready(self)", "did you mean is_ready?"),
        ("is_ready(self, args)", "write def is_ready(self):"),
    ],
)
def test_methods_that_not_every_model_has(look: Look, method: str, said: str) -> None:
    assert one(look(f"{GOOD}\n        def {method}:\n            return True\n")).remedy == said


def test_methods_that_not_every_model_has_as_they_are_called(look: Look) -> None:
    methods = ("sequence_ended(self, correlation_id, reason)", "is_ready(self)")
    assert look(GOOD + "".join(f"\n        def {method}:\n            return True\n" for method in methods)) == ()


@pytest.mark.parametrize(("config", "more"), [("", ""), ("sequence_batching { }", ", or a control_input of that name")])
def test_an_input_that_may_be_a_control(look: Look, config: str, more: str) -> None:
    finding = one(look(GOOD.replace('"IN"', '"START"'), f"{TENSORS} {config}"))
    assert (
        finding.remedy == f"did you mean 'IN'? If not, add input [ {{ name: \"START\" data_type: … dims: … }} ]{more}"
    )


DECOUPLED = f"{TENSORS} model_transaction_policy {{ decoupled: true }}"
SENDS = """
    class TritonPythonModel:
        async def execute(self, requests):
            await gather(*(self.answer(request) for request in requests))

        async def answer(self, request):
            request.get_response_sender().send(flags=1)
"""


@pytest.mark.parametrize("config", [TENSORS, DECOUPLED])
def test_a_method_that_execute_calls_may_send(look: Look, config: str) -> None:
    assert look(SENDS, config) == ()


def test_a_decoupled_execute_that_hands_requests_on(look: Look) -> None:
    code = "class TritonPythonModel:\n    def execute(self, requests):\n        self.queue.put(requests)\n"
    assert look(code, DECOUPLED) == ()


def test_a_decoupled_execute_that_returns_a_list(look: Look) -> None:
    finding = one(look(GOOD, DECOUPLED))
    assert "returns a list, and the model is decoupled" in finding.message
    assert "get_response_sender" in finding.remedy


def test_a_decoupled_execute_that_sends_nothing(look: Look) -> None:
    code = "class TritonPythonModel:\n    def execute(self, requests):\n        pass\n"
    assert "sends nothing, and the model is decoupled" in one(look(code, DECOUPLED)).message


@pytest.mark.parametrize(
    "code",
    [
        "from model_impl import TritonPythonModel\n",
        "from model_impl import *\n",
        "class Base:\n    def execute(self, requests): return []\nTritonPythonModel = Base\n",
        "class Base:\n    def execute(self, requests): return []\nclass TritonPythonModel(Base):\n    pass\n",
        "try:\n    import nowhere\nexcept ImportError:\n    nowhere = None\n" + WITHOUT,
        "import sys\nif sys.platform == 'plan9':\n    import nowhere\n" + WITHOUT,
        "from . import model_impl\nimport model_impl\n" + WITHOUT,
        "import triton_python_backend_utils, c_python_backend_utils\n" + WITHOUT,
        WITHOUT.replace("(self, requests)", "(self, *args)"),
        WITHOUT.replace("(self, requests)", "(self, requests, more=None)"),
        "class TritonPythonModel:\n    async def execute(self, requests):\n        return []\n",
        GOOD.replace('"OUT"', "self.name()"),
    ],
)
def test_what_can_not_be_seen_here_is_not_guessed_at(look: Look, code: str) -> None:
    assert look(code, files=("model_impl.py",)) == ()


def test_tensors_for_requests_of_its_own_are_no_outputs(look: Look) -> None:
    code = GOOD.replace("pass", 'pb_utils.InferenceRequest(model_name="other", inputs=[pb_utils.Tensor("X", None)])')
    assert look(code) == ()


def test_nothing_is_executed(look: Look, tmp_path: Path) -> None:
    trace = tmp_path / "executed"
    look(f"open({str(trace)!r}, 'w')\n" + WITHOUT)
    assert not trace.exists()


def test_a_model_without_a_configuration_is_told_what_to_write(look: Look) -> None:
    finding = one(look(GOOD, config=""))
    assert not finding.is_error
    for each in ("no inputs and no outputs", 'input [ { name: "IN"', 'output [ { name: "OUT"', "config.pbtxt"):
        assert each in str(finding)


def test_a_model_that_completes_itself_needs_none(look: Look) -> None:
    method = "        @staticmethod\n        def auto_complete_config(config):\n            return config\n\n"
    assert look(GOOD.replace("        def finalize", f"{method}        def finalize"), config="") == ()


def test_control_inputs_of_sequences_are_inputs(look: Look) -> None:
    control = 'sequence_batching { control_input [ { name: "START" control [ { int32_false_true: [ 0, 1 ] } ] } ] }'
    assert look(GOOD.replace('name(request, "IN")', 'name(request, "START")'), config=TENSORS + control) == ()


def environment(config: Any) -> str:
    return f'{TENSORS} parameters {{ key: "EXECUTION_ENV_PATH" value {{ string_value: "{config}" }} }}'


def test_packages_are_looked_for_in_the_models_own_environment(look: Look, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=False, symlinks=True)
    (next((tmp_path / "env").glob("lib/python*/site-packages")) / "only_there.py").touch()
    finding = one(look("import only_there\nimport numpy\n" + WITHOUT, config=environment(tmp_path / "env")))
    assert "'numpy' is not installed" in finding.message
    assert f"{tmp_path}/env/bin/python -m pip install numpy" in finding.remedy


def test_an_environment_that_is_not_there(look: Look, tmp_path: Path) -> None:
    finding = one(look(GOOD, config=environment(tmp_path / "nowhere")))
    assert finding.is_error
    for each in ("config.pbtxt:", "EXECUTION_ENV_PATH", "does not exist"):
        assert each in str(finding)
