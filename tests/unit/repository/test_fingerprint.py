"""What counts as a change of a model's folder, and for which versions."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from charonia.repository.fingerprint import Fingerprint, fingerprint


@pytest.fixture
def model(tmp_path: Path) -> Path:
    for path in ("config.pbtxt", "labels.txt", "1/model.onnx", "1/weights/a.bin", "2/model.onnx", "configs/b.pbtxt"):
        (tmp_path / "m" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "m" / path).write_text(path)
    return tmp_path / "m"


def touched(path: Path) -> None:
    """Another time of modification, whatever the clock's resolution."""
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))


def changed(before: Fingerprint, after: Fingerprint) -> list[int]:
    return [version for version in (1, 2) if not after.same_version(before, version)]


def test_nothing_has_changed(model: Path) -> None:
    assert fingerprint(model) == fingerprint(model)


@pytest.mark.parametrize(
    ("path", "versions"),
    [
        ("1/model.onnx", [1]),
        ("1/weights/a.bin", [1]),
        ("2/model.onnx", [2]),
        ("labels.txt", [1, 2]),
        ("config.pbtxt", []),  # what it says is compared, not the file
        ("configs/b.pbtxt", []),
    ],
)
def test_a_file_changes_the_versions_that_use_it(model: Path, path: str, versions: list[int]) -> None:
    before = fingerprint(model)
    touched(model / path)
    after = fingerprint(model)
    assert after != before
    assert changed(before, after) == versions


def test_another_size_is_a_change_though_the_time_is_the_same(model: Path) -> None:
    file, before = model / "1" / "model.onnx", fingerprint(model)
    stamp = file.stat().st_mtime_ns
    file.write_text("longer than before")
    os.utime(file, ns=(stamp, stamp))
    assert changed(before, fingerprint(model)) == [1]


def test_a_new_version_and_one_that_is_gone(model: Path) -> None:
    before = fingerprint(model)
    (model / "5").mkdir()
    after = fingerprint(model)
    assert after != before
    assert changed(before, after) == []
    (model / "5").rmdir()
    assert fingerprint(model) == before


@pytest.mark.parametrize("path", ["1/__pycache__/model.pyc", ".git/index", "1/.model.py.swp", ".ipynb_checkpoints/x"])
def test_what_python_and_editors_leave_behind_is_no_change(model: Path, path: str) -> None:
    before = fingerprint(model)
    (model / path).parent.mkdir(exist_ok=True)
    (model / path).write_text("")
    assert fingerprint(model) == before


def test_links_are_followed(model: Path, tmp_path: Path) -> None:
    target = tmp_path / "weights"
    target.write_text("one")
    (model / "1" / "linked").symlink_to(target)
    before = fingerprint(model)
    touched(target)
    assert changed(before, fingerprint(model)) == [1]


def test_circles_of_links_end(model: Path) -> None:
    (model / "1" / "back").symlink_to("..")
    (model / "1" / "self").symlink_to("self")
    before = fingerprint(model)
    assert fingerprint(model) == before
    touched(model / "2" / "model.onnx")
    assert fingerprint(model) != before


def test_a_file_that_takes_the_place_of_a_folder(model: Path) -> None:
    (model / "1" / "empty").mkdir()
    before = fingerprint(model)
    (model / "1" / "empty").rmdir()
    (model / "1" / "empty").write_text("")
    assert changed(before, fingerprint(model)) == [1]


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert fingerprint(tmp_path / "nowhere") == Fingerprint()


def test_folders_far_deeper_than_functions_may_call_one_another(model: Path) -> None:
    before = fingerprint(model)
    folder = os.open(model / "1", os.O_RDONLY)
    for _ in range(sys.getrecursionlimit() + 100):
        os.mkdir("d", dir_fd=folder)
        inner = os.open("d", os.O_RDONLY, dir_fd=folder)
        os.close(folder)
        folder = inner
    os.close(folder)
    assert changed(before, fingerprint(model)) == [1]
    subprocess.run(["rm", "-rf", model / "1"], check=True)  # what pytest removes folders by is too deep for these
