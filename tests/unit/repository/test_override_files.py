"""The files of a load request: where they are written, where they may not be, and when they go."""

from pathlib import Path

import pytest

from charonia.core.errors import InvalidArgumentError
from charonia.repository.override_files import OverrideFolders


@pytest.fixture
def folders(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = OverrideFolders()
    yield made
    made.close()


def files_under(path: Path) -> list[str]:
    return sorted(str(each.relative_to(path)) for each in path.rglob("*") if each.is_file() and each.name != ".in-use")


def test_the_files_are_all_that_the_folder_holds(folders):
    folder = folders.lay_out("m", {"1/model.onnx": b"abc", "./2//../labels.txt": b"cat"})
    assert folder.path.name == "m"
    assert files_under(folder.path) == ["1/model.onnx", "labels.txt"]
    assert (folder.path / "1" / "model.onnx").read_bytes() == b"abc"


def test_nobody_else_may_look_into_it(folders, tmp_path):
    folders.lay_out("m", {"1/x": b""})
    (root,) = tmp_path.iterdir()
    assert root.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("path", ["../x", "1/../../x", "..", "/../etc/passwd", "../m2/x", "a/../../../x"])
def test_a_path_out_of_the_folder_is_refused_and_nothing_is_written(folders, tmp_path, path):
    with pytest.raises(InvalidArgumentError, match="must stay within model directory") as raised:
        folders.lay_out("m", {"1/ok": b"", path: b"evil"})
    assert path in str(raised.value)
    assert files_under(tmp_path) == []


@pytest.mark.parametrize("path", ["", ".", "1/..", "1/", "a\0b"])
def test_a_path_that_names_no_file_is_refused(folders, path):
    with pytest.raises(InvalidArgumentError, match="no path of a file"):
        folders.lay_out("m", {path: b""})


@pytest.mark.parametrize(
    ("paths", "message"),
    [
        (["1", "1/model.onnx"], "'1' can't be a file and the folder of '1/model.onnx'"),
        (["a/b/c", "a/b", "a/b/c/d"], "can't be a file and the folder"),
        (["1/x", "1/./x"], "are the same one"),
        (["1/" + "x" * 256], "longer than 255 bytes"),
    ],
)
def test_paths_that_contradict_one_another(folders, tmp_path, paths, message):
    with pytest.raises(InvalidArgumentError, match=message):
        folders.lay_out("m", dict.fromkeys(paths, b""))
    assert files_under(tmp_path) == []


def test_the_folder_goes_with_the_last_who_holds_it(folders, tmp_path):
    folder = folders.lay_out("m", {"1/x": b""})
    folder.hold()
    folder.release()
    assert files_under(folder.path) == ["1/x"]
    folder.release()
    assert files_under(tmp_path) == []


def test_at_the_end_everything_goes(folders, tmp_path):
    folders.lay_out("m", {"1/x": b""})
    folders.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["d/" * 70 + "x", "d/" * 5_000_000 + "x", "a" * 250 + "/" + "b" * 250 + "/c" * 300])
def test_a_path_longer_or_deeper_than_any_is_refused_at_once(folders, path):
    with pytest.raises(InvalidArgumentError, match="has a path of more than 1024 bytes or 64 parts"):
        folders.lay_out("m", {"1/ok": b"", path: b""})


def test_half_a_character_is_refused(folders):
    with pytest.raises(InvalidArgumentError, match="half a character in its path"):
        folders.lay_out("m", {"1/\ud800": b""})
