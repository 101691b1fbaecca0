"""What is said of a version folder without the model's file."""

from pathlib import Path

import pytest

from charonia.backends.missing_file import missing_file


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


def test_an_empty_folder(version: Path) -> None:
    assert "the folder is empty" in said(version)
