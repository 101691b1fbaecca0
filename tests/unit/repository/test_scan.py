"""Model folders, version folders, and what lies in the wrong place."""

import os
import sys
from pathlib import Path

import pytest

from charonia.core.errors import InvalidArgumentError
from charonia.repository.scan import scan


def make(root: Path, *paths: str) -> str:
    for path in paths:
        full = root / path
        if path.endswith("/"):
            full.mkdir(parents=True, exist_ok=True)
        else:
            full.parent.mkdir(parents=True, exist_ok=True)
            full.touch()
    return str(root)


def test_finds_models_and_versions_in_number_order(tmp_path: Path) -> None:
    found = scan([make(tmp_path, "b/10/model.onnx", "b/9/model.onnx", "a/1/model.py", "a/config.pbtxt")])
    assert {name: model.versions for name, model in found.models.items()} == {"a": (1,), "b": (9, 10)}
    assert list(found.models) == ["a", "b"]
    assert not found.warnings
    assert not any(model.warnings for model in found.models.values())


@pytest.mark.parametrize(
    ("folder", "hint"), [("01", "'1'"), ("v1", "'1'"), ("-1", "'1'"), ("0", "'1'"), ("9" * 20, "too large")]
)
def test_a_folder_that_looks_like_a_version_is_ignored_with_a_hint(tmp_path: Path, folder: str, hint: str) -> None:
    model = scan([make(tmp_path, f"m/{folder}/model.onnx", "m/2/model.onnx")]).models["m"]
    assert model.versions == (2,)
    warning = str(*model.warnings)
    assert f"'{folder}'" in warning
    assert hint in warning


@pytest.mark.parametrize("folder", ["lib", "tokenizer", "warmup", "configs", ".git"])
def test_other_folders_are_ignored_silently(tmp_path: Path, folder: str) -> None:
    model = scan([make(tmp_path, f"m/{folder}/x", "m/1/model.onnx")]).models["m"]
    assert model.versions == (1,)
    assert not model.warnings


def test_a_model_file_beside_the_version_folders_is_pointed_out(tmp_path: Path) -> None:
    model = scan([make(tmp_path, "m/model.onnx")]).models["m"]
    assert model.versions == ()
    assert "model.onnx lies in the model's folder itself" in str(model.warnings[0])
    assert str(tmp_path / "m" / "1" / "model.onnx") in str(model.warnings[0])


def test_a_model_file_in_the_repository_itself_is_pointed_out(tmp_path: Path) -> None:
    found = scan([make(tmp_path, "model.onnx", "README.md")])
    assert not found.models
    assert len(found.warnings) == 1
    assert "belongs into a version folder" in str(found.warnings[0])


def test_a_name_in_two_repositories_is_no_model_and_others_are_not_touched(tmp_path: Path) -> None:
    one = make(tmp_path / "one", "m/1/model.onnx", "a/1/model.onnx")
    two = make(tmp_path / "two", "m/1/model.onnx", "b/1/model.onnx")
    found = scan([one, two])
    assert list(found.models) == ["a", "b"]
    assert found.duplicates == {"m": (one, two)}


def test_links_that_lead_in_a_circle_do_not_keep_others_from_being_found(tmp_path: Path) -> None:
    repository = make(tmp_path, "a/1/model.onnx")
    (tmp_path / "circle").symlink_to("circle")
    (tmp_path / "a" / "2").symlink_to("2")
    found = scan([repository])
    assert {name: model.versions for name, model in found.models.items()} == {"a": (1,)}
    assert "circle" in str(found.warnings[0])
    assert "/a/2" in str(found.models["a"].warnings[0])


@pytest.mark.skipif(sys.platform != "linux", reason="other systems refuse such names")
def test_a_name_that_is_no_text_is_pointed_out(tmp_path: Path) -> None:
    repository = make(tmp_path, "a/1/model.onnx")
    os.mkdir(os.fsencode(tmp_path) + b"/bad\xff")
    found = scan([repository])
    assert list(found.models) == ["a"]
    assert "bad\\xff" in str(found.warnings[0])


def test_a_repository_named_twice_counts_once(tmp_path: Path) -> None:
    root = make(tmp_path, "m/1/model.onnx")
    assert list(scan([root, root + "/"]).models) == ["m"]


def test_a_missing_repository_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match="nowhere"):
        scan([str(tmp_path / "nowhere")])


@pytest.mark.parametrize("files", [["1/model.onnx"], ["config.pbtxt", "1/model.py"]])
def test_a_models_own_folder_given_as_the_repository_is_told(tmp_path: Path, files: list[str]) -> None:
    for name in files:
        (tmp_path / "m" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "m" / name).write_text("")
    assert any(f"--model-repository={tmp_path}" in str(warning) for warning in scan([str(tmp_path / "m")]).warnings)
    assert not any("looks like" in str(warning) for warning in scan([str(tmp_path)]).warnings)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_version_folder_that_may_not_be_entered_keeps_no_other_model_away(tmp_path: Path) -> None:
    repository = make(tmp_path, "m/1/model.onnx", "good/1/model.onnx")
    (tmp_path / "m/1").chmod(0o600)
    assert list(scan([repository]).models) == ["good", "m"]
