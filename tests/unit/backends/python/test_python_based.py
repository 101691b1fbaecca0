"""Python-based backends: one `model.py` in the backend's folder serves models that have none of their own."""

import numpy as np
import pytest

from charonia.backends.base import InstanceSpec, MortalInstance
from charonia.backends.python import PythonBackend
from charonia.testing.batch import make_batch

SPEC = InstanceSpec("m_0", "KIND_CPU", "cpu", 1)

BACKEND = """
import json, os
import numpy as np
import triton_python_backend_utils as pb_utils
from tools.scaling import scale

class TritonPythonModel:
    @staticmethod
    def auto_complete_config(config):
        config.add_output({"name": "Y", "data_type": "TYPE_FP32", "dims": [-1]})
        return config

    def initialize(self, args):
        with open(os.path.join(pb_utils.get_model_dir(), "weight.txt")) as file:
            self.weight = float(file.read())

    def execute(self, requests):
        return [pb_utils.InferenceResponse([pb_utils.Tensor("Y", scale(r.inputs()[0].as_numpy(), self.weight))])
                for r in requests]
"""


@pytest.fixture
def backend(tmp_path):
    folder = tmp_path / "backends" / "scaler"
    (folder / "tools").mkdir(parents=True)
    (folder / "model.py").write_text(BACKEND)
    (folder / "tools" / "__init__.py").write_text("")
    (folder / "tools" / "scaling.py").write_text("def scale(array, weight):\n    return array * weight\n")
    made = PythonBackend("scaler", folder / "model.py")
    yield made
    made.close()


def context_of(workshop, form, weight):
    folder = workshop.folder / f"m{weight}" / "1"
    folder.mkdir(parents=True)
    (folder / "weight.txt").write_text(str(weight))
    context = workshop.context(f"m{weight}", form=form, outputs="")
    context.config.backend = "scaler"
    return context


def test_models_without_code_of_their_own(workshop, backend, form):
    instances = []
    for weight in (2, 3):
        context = context_of(workshop, form, weight)
        config = backend.complete_config(context)
        assert [output.name for output in config.output] == ["Y"]
        instances.append(backend.load(context).create_instance(SPEC))
    for _ in range(2):
        answers = [make_batch({"X": np.ones(1, np.float32)}).run(i).outputs()["Y"].tolist() for i in instances]
        assert answers == [[2], [3]]
    assert all(isinstance(instance, MortalInstance) for instance in instances)
    for instance in instances:
        instance.close()
