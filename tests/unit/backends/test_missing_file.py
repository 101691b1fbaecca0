"""What is said of a version folder without the model's file."""

import os
from pathlib import Path

import pytest

from charonia.backends.missing_file import missing_file
from charonia.backends.onnxruntime.files import model_file
from charonia.config.schema import ModelConfig
from charonia.core.errors import NotFoundError


@pytest.fixture
def version(tmp_path: Path) -> Path:
    folder = tmp_path / "m" / "1"
    folder.mkdir(parents=True)
    return folder


def said(version: Path, filename: str = "model.onnx") -> str:
    return str(missing_file("m", version / filename, version.parent, version))


@pytest.mark.parametrize("target", ["/mnt/nowhere/model.onnx", "model.onnx"])
def test_a_link_that_leads_to_no_file_is_told_as_one(version: Path, target: str) -> None:
    (version / "model.onnx").symlink_to(target)
    assert f"it is a link to '{target}', where no file is" in said(version)


def test_a_file_of_another_name_may_be_renamed_or_configured(version: Path) -> None:
    (version / "net.onnx").touch()
    assert said(version).endswith("rename 'net.onnx' to 'model.onnx', or set default_model_filename: \"net.onnx\"")


def test_a_name_that_begins_with_the_version_folder_is_corrected(version: Path) -> None:
    (version / "model.onnx").touch()
    assert said(version, "1/model.onnx").endswith(
        'set default_model_filename: "model.onnx": it is relative to the version folder'
    )


def test_a_folder_that_may_not_be_entered(version: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.access", lambda path, mode: path != version)
    assert (
        f"the folder can't be read; open it for the user that the server runs as, for example by chmod a+rx '{version}'"
        in said(version)
    )


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("mode", [0o000, 0o400])
def test_a_folder_that_may_not_be_entered_is_told_by_the_finder(version: Path, mode: int) -> None:
    (version / "model.onnx").touch()
    version.chmod(mode)
    with pytest.raises(NotFoundError, match="the folder can't be read"):
        model_file(ModelConfig(name="m"), version.parent, version)


def test_an_empty_folder(version: Path) -> None:
    assert "the folder is empty" in said(version)
