"""The enumerations and constants of the API: models name members through the classes that take them, or by the type."""

from types import SimpleNamespace

import numpy as np
import pytest

from charonia.backends.python.child.internals import build_internals
from charonia.backends.python.child.pb_utils import build_module


@pytest.fixture
def told():
    return []


@pytest.fixture
def api(told):
    """For a model whose server takes what it is told, and numbers what it is asked for."""

    def call(operation, *arguments):
        told.append((operation, *arguments))
        return len(told)

    def log(level, message, file, line):
        told.append((level, message))

    return build_module(SimpleNamespace(model_dir="/m", call=call, cast=lambda *_: None, log=log))


@pytest.mark.parametrize("kind", ["COUNTER", "GAUGE", "HISTOGRAM"])
def test_kinds_of_metrics(api, told, kind):
    member = api.MetricKind[kind]
    assert getattr(api.MetricFamily, kind) is member
    family = api.MetricFamily("seen", "Seen", member)
    assert told == [("metric.family", "seen", "Seen", kind.lower())]
    assert type(told[0][-1]) is str  # what crosses to the server is plain
    del family


@pytest.mark.parametrize("level", ["INFO", "WARNING", "ERROR", "VERBOSE"])
def test_levels_of_the_log(api, told, level):
    member = api.Logger.LogLevel[level]
    assert getattr(api.Logger, level) is member
    api.Logger.log("said", member)
    assert told == [(level, "said")]
    assert type(told[0][0]) is str


@pytest.mark.parametrize(("name", "value"), [("TRITONSERVER_MEMORY_GPU", 0), ("TRITONSERVER_MEMORY_CPU", 1)])
def test_types_of_memory(api, name, value):
    member = api.MemoryType[name]
    assert member is getattr(api, name)
    assert member == value
    assert api.PreferredMemory(preferred_memory_type=member, preferred_device_id=0)
    with pytest.raises(TypeError, match="preferred_memory_type must be TRITONSERVER_MEMORY_GPU or"):
        api.PreferredMemory(2)


def test_the_internal_module_has_them_too(api):
    internals = build_internals(api, lambda: 0)
    assert (internals.MetricKind, internals.MemoryType) == (api.MetricKind, api.MemoryType)


def test_constants_have_tritons_values(api):
    names = "REQUEST_FLAG_SEQUENCE_START REQUEST_FLAG_SEQUENCE_END RESPONSE_COMPLETE_FINAL REQUEST_RELEASE_ALL"
    assert [getattr(api, f"TRITONSERVER_{name}") for name in names.split()] == [1, 2, 1, 1]
    assert api.TRITONSERVER_REQUEST_RELEASE_RESCHEDULE == 2
    codes = "UNKNOWN INTERNAL NOT_FOUND INVALID_ARG UNAVAILABLE UNSUPPORTED ALREADY_EXISTS CANCELLED"
    assert [getattr(api.TritonError, name) for name in codes.split()] == list(range(8))


def test_numpy_types_by_the_names_of_configurations(api):
    types = api.TRITON_STRING_TO_NUMPY
    assert {name: types[name] for name in ("TYPE_BOOL", "TYPE_UINT64", "TYPE_FP16", "TYPE_STRING")} == {
        "TYPE_BOOL": bool,
        "TYPE_UINT64": np.uint64,
        "TYPE_FP16": np.float16,
        "TYPE_STRING": np.object_,
    }


def test_flags_of_a_request_may_be_changed(api):
    request = api.InferenceRequest(model_name="m", inputs=[], requested_output_names=[])
    request.set_flags(api.TRITONSERVER_REQUEST_FLAG_SEQUENCE_START | api.TRITONSERVER_REQUEST_FLAG_SEQUENCE_END)
    assert request.flags() == 3
    with pytest.raises(TypeError, match="flags"):
        request.set_flags(None)
