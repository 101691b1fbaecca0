"""Settings of backends that nobody reads get a line in the log."""

import re
from pathlib import Path

import pytest

import charonia
from charonia.backends.registry import embedded_backends
from charonia.cli.backend_settings import SETTINGS
from charonia.cli.parse import parse_flags

BACKENDS = Path(charonia.__file__).parent / "backends"


def remarks(*settings):
    return parse_flags(["--model-repository=/m", *(f"--backend-config={setting}" for setting in settings)]).remarks


@pytest.mark.parametrize(
    "setting", ["python,shm-default-byte-size=1", "onnxruntime,x=1", "identity,a=b", "exection=inline"]
)
def test_a_setting_that_nobody_reads(setting):
    (remark,) = remarks(setting)
    assert remark.startswith(
        f"--backend-config={setting.rpartition('=')[0]} is accepted and has no effect here (read are: "
    )


def test_settings_that_are_read_and_those_of_other_backends():
    assert remarks("execution=inline", "python,max-deaths=3", "default-max-batch-size=8", "tensorflow,version=2") == []


@pytest.mark.parametrize("backend", SETTINGS)
def test_the_table_agrees_with_the_backends(backend):
    files = [BACKENDS / f"{backend}.py"] if backend == "identity" else (BACKENDS / backend).rglob("*.py")
    sources = "\n".join(path.read_text() for path in files)
    assert [key for key in SETTINGS[backend] if not re.search(rf'"{key}"', sources)] == []
    assert set(SETTINGS) == set(embedded_backends())
