"""Tensors on a device, through ensembles and calls, in both forms of Python models: copied to the host where the wire
begins or where a model can't take them, and nowhere else."""

import gc
from pathlib import Path

import numpy as np
import pytest

from charonia.api import Server
from charonia.backends.python.child import fake_device
from charonia.testing.device import FakeDevice, FakeDeviceBackend
from tests.models import fake_framework
from tests.models.gated import PATIENCE_S
from tests.models.repository import write_config, write_python_model

FORMS = ("isolated", "inline")
TENSORS = """
    max_batch_size: 4
    input { name: "IN" data_type: TYPE_FP32 dims: [ -1 ] }
    output { name: "OUT" data_type: TYPE_FP32 dims: [ -1 ] }
"""
HEAD = """
import fakelib
import numpy as np
import triton_python_backend_utils as pb_utils

class Base:
    def initialize(self, args):
        self.isolated = args["model_name"].endswith("isolated")

    def execute(self, requests):
        answers = [pb_utils.InferenceResponse([self.one(request)]) for request in requests]
        # In the server's own process others count too.
        assert not self.isolated or fakelib.downloads() == 0, "this process has copied to the host"
        return answers
"""
KEEPS = """
class TritonPythonModel(Base):
    def one(self, request):
        tensor = request.inputs()[0]
        return pb_utils.Tensor.from_dlpack("OUT", fakelib.Array(fakelib.look(tensor) + 1))
"""
ON_HOST = """
class TritonPythonModel(Base):
    def one(self, request):
        return pb_utils.Tensor("OUT", request.inputs()[0].as_numpy() + 1)
"""
# What the parameter says: models to call one after another, and where the last one's output is wanted.
CALLS = """
import json

class TritonPythonModel(Base):
    def one(self, request):
        said = json.loads(request.parameters())
        tensor, preferred = request.inputs()[0], None
        *before, last = said["models"].split()
        for model in before:
            tensor = self.call(model, tensor)
            assert not tensor.is_cpu(), model
        if said["wanted"]:
            preferred = pb_utils.PreferredMemory(getattr(pb_utils, "TRITONSERVER_MEMORY_" + said["wanted"]), 0)
        tensor = self.call(last, tensor, preferred)
        assert tensor.is_cpu() == (said["wanted"] == "CPU")
        return pb_utils.Tensor("OUT", tensor.as_numpy()) if tensor.is_cpu() else self.renamed(tensor)

    def renamed(self, tensor):
        return pb_utils.Tensor.from_dlpack("OUT", tensor.to_dlpack())

    def call(self, model, tensor, preferred=None):
        response = pb_utils.InferenceRequest(
            model_name=model,
            requested_output_names=["OUT"],
            inputs=[pb_utils.Tensor("IN", tensor.as_numpy()) if tensor.is_cpu() else
                    pb_utils.Tensor.from_dlpack("IN", tensor.to_dlpack())],
            preferred_memory=preferred,
        ).exec()
        assert not response.has_error(), response.error().message()
        return response.output_tensors()[0]
"""
KEPT = 'parameters { key: "FORCE_CPU_ONLY_INPUT_TENSORS" value { string_value: "no" } }'


def python_model(folder, name, form, code, more=""):
    execution = f'parameters {{ key: "execution" value {{ string_value: "{form}" }} }}'
    version = write_python_model(folder, f"{name}_{form}", TENSORS + execution + more, HEAD + code)
    (version / "fakelib.py").write_text(Path(fake_framework.__file__).read_text())


def ensemble(folder, name, *models):
    tensors = ["IN", *(f"t{number}" for number in range(1, len(models))), "OUT"]
    steps = "".join(
        f'step {{ model_name: "{model}" model_version: -1 input_map {{ key: "IN" value: "{source}" }} '
        f'output_map {{ key: "OUT" value: "{target}" }} }}\n'
        for model, source, target in zip(models, tensors, tensors[1:], strict=False)
    )
    config = f'platform: "ensemble"\n{TENSORS}\nensemble_scheduling {{ {steps} }}'
    (write_config(folder, name, config) / "1").mkdir()


def lay_out(folder):
    for name in ("a", "b"):
        (write_config(folder, name, 'backend: "fake_device"' + TENSORS) / "1").mkdir()
    for form in FORMS:
        python_model(folder, "keeps", form, KEEPS, KEPT)
        python_model(folder, "host", form, ON_HOST)
        python_model(folder, "calls", form, CALLS)
        ensemble(folder, f"stays_{form}", "a", f"keeps_{form}", f"keeps_{form}", "b")
        ensemble(folder, f"ends_{form}", "a", f"host_{form}")
        ensemble(folder, f"passes_{form}", "a", f"host_{form}", "b")
    ensemble(folder, "through_both", "a", "keeps_isolated", "keeps_inline", "keeps_isolated", "b")


@pytest.fixture(scope="module")
def device():
    return FakeDevice()


@pytest.fixture(scope="module")
def server(repository, device):
    point = type("Point", (), {"load": lambda self: lambda: FakeDeviceBackend(device)})()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("charonia.backends.registry._entry_points", lambda: {"fake_device": point})
        with Server(repository, http_port=0, grpc_port=0) as running:
            yield running


def copies(device, door, model, expected, parameters=None):
    """(copies to the device, copies to the host) that one request costs; its answer is looked at."""
    before = device.uploads, device.downloads
    given = np.array([[1, 2], [3, 4]], np.float32)
    assert door.infer(model, {"IN": given}, parameters=parameters)["OUT"].tolist() == (given + expected).tolist()
    return device.uploads - before[0], device.downloads - before[1]


@pytest.mark.parametrize("form", FORMS)
def test_between_steps_nothing_is_copied(device, door, form):
    assert copies(device, door, f"stays_{form}", 4) == (1, 1)


def test_processes_the_server_and_a_backend_hand_it_round(device, door):
    assert copies(device, door, "through_both", 5) == (1, 1)


@pytest.mark.parametrize("form", FORMS)
def test_a_model_that_can_not_take_the_device_costs_one_copy(device, door, form):
    assert copies(device, door, f"ends_{form}", 2) == (1, 1), "what it answers is on the host"
    assert copies(device, door, f"passes_{form}", 3) == (2, 2), "the second is for the wire"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("wanted", ["", "GPU", "CPU"])
def test_a_chain_of_calls_copies_nothing_but_for_the_wire_or_where_it_is_asked_for(device, door, form, wanted):
    said = {"models": f"a keeps_{form} b a b", "wanted": wanted}
    assert copies(device, door, f"calls_{form}", 5, said) == (1, 1)


def test_calls_from_one_form_to_the_other(device, door):
    said = {"models": "a keeps_inline keeps_isolated b stays_inline", "wanted": ""}
    assert copies(device, door, "calls_isolated", 8, said) == (1, 1)
    said["models"] = "a keeps_isolated keeps_inline b stays_isolated"
    assert copies(device, door, "calls_inline", 8, said) == (1, 1)


def test_many_at_once_and_nothing_is_kept(server, device):
    """Each process gives memory back with its next request, so a few are always waiting; they don't add up."""

    def in_use():
        gc.collect()
        return len(fake_device._allocated)

    def ask(count):
        asked = []
        for number in range(count):
            given = {"IN": np.full((1, 3), number, np.float32)}
            for model, added in [("through_both", 5), ("stays_isolated", 4), ("stays_inline", 4)]:
                asked.append((number + added, server.model(model).submit(given)))
            said = {"models": "a keeps_isolated keeps_inline b", "wanted": ""}
            asked.extend((number + 4, server.model(f"calls_{form}").submit(given, parameters=said)) for form in FORMS)
        for expected, future in asked:
            assert future.result(PATIENCE_S).outputs["OUT"].numpy().tolist() == [[expected] * 3]

    for _ in range(2):
        ask(40)
        for _ in range(5):
            ask(1)
        assert in_use() < 20
