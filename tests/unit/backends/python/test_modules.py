"""Which modules a model's imports find: its own, in both forms, and nobody else's."""

import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from charonia.backends.python.scope import Scope

X = {"X": np.zeros(1, np.float32)}

USES_HELPER = """
import helper
from package.inner import VALUE

class TritonPythonModel:
    def execute(self, requests):
        import helper as again          # a late import finds the same module
        from package import inner
        assert again is helper and inner.VALUE == VALUE
        value = np.array([helper.NUMBER, VALUE], np.float32)
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", value)]) for _ in requests]
"""


def files(number):
    return {
        "helper.py": f"import other\nNUMBER = {number} + other.ZERO\n",
        "other.py": "ZERO = 0\n",
        "package/__init__.py": "",
        "package/inner.py": f"from .sibling import TEN\nimport other\nVALUE = {number} * TEN\n",
        "package/sibling.py": "TEN = 10\n",
    }


def test_models_and_versions_with_equally_named_files_serve_alternately(serve):
    served = [
        serve(USES_HELPER, files=files(1), name="first"),
        serve(USES_HELPER, files=files(2), name="second", version=1),
        serve(USES_HELPER, files=files(3), name="second", version=2),
    ]
    for _ in range(2):
        values = [model.call(**X)["Y"].tolist() for model in served]
        assert values == [[1, 10], [2, 20], [3, 30]]


def test_a_reload_runs_fresh_code(serve, workshop):
    first = serve(USES_HELPER, files=files(4))
    assert first.call(**X)["Y"].tolist() == [4, 40]
    first.unload()
    assert serve(USES_HELPER, files=files(5)).call(**X)["Y"].tolist() == [5, 50]


def test_relative_imports_and_files_of_the_models_folder(serve, workshop):
    code = """
    from . import helper
    from .helper import NUMBER
    import shared
    class TritonPythonModel:
        def execute(self, requests):
            value = np.array([helper.NUMBER, NUMBER, shared.SEVEN], np.float32)
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", value)])]
    """
    all_files = {"helper.py": "NUMBER = 6\n", "../shared.py": "SEVEN = 7\n"}
    assert serve(code, files=all_files).call(**X)["Y"].tolist() == [6, 6, 7]


def test_the_standard_library_and_charonias_own_names_are_not_hidden(serve):
    code = """
    import queue, wire
    class TritonPythonModel:
        def execute(self, requests):
            value = np.array([hasattr(queue, "Queue"), wire.MINE], np.float32)
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", value)])]
    """
    own = {"queue.py": "raise RuntimeError('hides the standard library')\n", "wire.py": "MINE = 1\n"}
    assert serve(code, files=own).call(**X)["Y"].tolist() == [1, 1]


def test_helper_files_get_the_api_too(serve, workshop):
    code = """
    import helper
    class TritonPythonModel:
        def execute(self, requests):
            return [helper.answer()]
    """
    helper = """
    import numpy as np
    import triton_python_backend_utils as pb_utils
    from triton_python_backend_utils import Tensor
    def answer():
        return pb_utils.InferenceResponse([Tensor("Y", np.ones(1, np.float32))])
    """
    assert serve(code, files={"helper.py": helper}).call(**X)["Y"].tolist() == [1]


def test_a_folder_of_data_does_not_hide_an_installed_package(serve):
    code = """
    import ml_dtypes
    class TritonPythonModel:
        def execute(self, requests):
            value = np.array([hasattr(ml_dtypes, "bfloat16")], np.float32)
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", value)])]
    """
    assert serve(code, files={"ml_dtypes/weights.txt": "1"}).call(**X)["Y"].tolist() == [1]


def test_classes_of_a_model_can_be_pickled(serve):
    code = """
    import dataclasses, pickle, typing
    @dataclasses.dataclass
    class Point:
        x: "typing.Optional[int]"
    class TritonPythonModel:
        def execute(self, requests):
            assert pickle.loads(pickle.dumps(Point(3))) == Point(3)
            assert typing.get_type_hints(Point)["x"] == typing.Optional[int]
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", np.ones(1, np.float32))])]
    """
    assert serve(code).call(**X)["Y"].tolist() == [1]


def test_nothing_is_written_into_the_repository(serve, workshop):
    serve(USES_HELPER, files=files(1)).unload()
    assert not list(workshop.folder.rglob("__pycache__"))


def test_an_unload_leaves_no_modules_behind(workshop):
    modules, finders = set(sys.modules), list(sys.meta_path)
    served = workshop.serve(USES_HELPER, files=files(1), form="inline")
    assert set(sys.modules) != modules
    served.unload()
    assert not [name for name in set(sys.modules) - modules if "charonia_inline" in name]
    assert sys.meta_path == finders


def test_instances_share_the_code_but_not_the_model(workshop):
    code = """
    LOADS = []
    LOADS.append(1)
    class TritonPythonModel:
        count = 0
        def execute(self, requests):
            self.count += 1
            value = np.array([len(LOADS), self.count], np.float32)
            return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", value)])]
    """
    served = workshop.serve(code, form="inline", instances=2)
    served.call(**X)
    served.instance = served.instances[1]
    assert served.call(**X)["Y"].tolist() == [1, 1]


def test_a_scope_does_not_touch_imports_outside(tmp_path):
    (tmp_path / "helper_of_scope.py").write_text("")
    scope = Scope([tmp_path], {}, breakpoint)
    try:
        with pytest.raises(ImportError):
            __import__("helper_of_scope")
    finally:
        scope.close()


def test_scopes_close_at_the_same_time(tmp_path):
    """As the models of a server that stops: none meets the others' modules on their way out."""
    scopes = [Scope([tmp_path], {}, breakpoint) for _ in range(200)]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(Scope.close, scopes))
    finally:
        sys.setswitchinterval(interval)
    assert not any(scope.package in sys.modules for scope in scopes)


def test_other_threads_may_import_while_a_scope_is_made(tmp_path, monkeypatch):
    class Changing(dict):
        """As it is while another thread imports."""

        def items(self):
            raise RuntimeError("dictionary changed size during iteration")

    monkeypatch.setattr(sys, "path_importer_cache", Changing(sys.path_importer_cache))
    for number in range(3):
        (tmp_path / f"helper{number}.py").write_text("")
        (tmp_path / "model.py").write_text(f"import helper{number}\n")
        scope = Scope([tmp_path], {}, breakpoint)
        scope.load(tmp_path / "model.py")
        scope.close()
