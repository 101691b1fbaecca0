"""Finding backends by name."""

from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from charonia.backends.identity import IdentityBackend
from charonia.backends.registry import ENTRY_POINT_GROUP, BackendRegistry
from charonia.core.errors import BackendError, NotFoundError


class _Closing(IdentityBackend):
    """Counts how often it is closed."""

    def __init__(self, name: str = "closing", model_file: Path | None = None) -> None:
        self.name = name
        self.model_file = model_file
        self.closed = 0

    def close(self) -> None:
        self.closed += 1


def _registry(directory: Path | None = None, **embedded: Any) -> BackendRegistry:
    return BackendRegistry(directory, {}, {"identity": IdentityBackend, **embedded}, _Closing)


def test_one_backend_a_server(tmp_path: Path) -> None:
    first, second = _registry(), _registry()
    assert first.get("identity") is first.get("identity")
    assert first.get("identity") is not second.get("identity")
    assert first.made() == ["identity"]


def test_closing_closes_what_was_made() -> None:
    registry = _registry(closing=_Closing)
    made = registry.get("closing")
    registry.close()
    registry.close()
    assert isinstance(made, _Closing)
    assert made.closed == 1


def test_python_based_backends(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/model.py").touch()
    (tmp_path / "empty").mkdir()
    registry = _registry(tmp_path)
    assert registry.names() == ["identity", "mine"]
    made = registry.get("mine")
    assert isinstance(made, _Closing)
    assert (made.name, made.model_file) == ("mine", tmp_path / "mine/model.py")


def test_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    point = metadata.EntryPoint("third", "charonia.backends.identity:IdentityBackend", ENTRY_POINT_GROUP)
    monkeypatch.setattr("charonia.backends.registry._entry_points", lambda: {"third": point})
    assert isinstance(_registry().get("third"), IdentityBackend)


def test_a_backend_that_cannot_be_made() -> None:
    def broken() -> Any:
        raise ImportError("no such library")

    with pytest.raises(BackendError, match="'broken' can't be started: ImportError: no such library"):
        _registry(broken=broken).get("broken")


def test_settings_of_one_backend_go_before_those_of_all() -> None:
    registry = BackendRegistry(None, {"": {"a": "1", "b": "1"}, "identity": {"b": "2"}}, {}, _Closing)
    assert registry.config_for("identity") == {"a": "1", "b": "2"}
    assert registry.config_for("other") == {"a": "1", "b": "1"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("tensorrt", "only on the GPU type and with the TensorRT version.*pip install tensorrt"),
        ("pytorch", r"pip install torch.*torch\.onnx\.export"),
        ("torch", r"pip install torch.*torch\.onnx\.export"),
        ("openvino", "pip install openvino.*cpu_execution_accelerator"),
        ("identiy", "did you mean 'identity'"),
        ("nobody", "entry point 'nobody'.*nobody/model.py"),
    ],
)
def test_what_to_install(tmp_path: Path, name: str, words: str) -> None:
    with pytest.raises(NotFoundError, match=f"backend '{name}' is not installed.*{words}"):
        _registry(tmp_path).get(name)
