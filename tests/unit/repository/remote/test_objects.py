"""A listing as folders and files."""

import pytest

from charonia.repository.fingerprint import fingerprint
from charonia.repository.remote.objects import ObjectTree
from charonia.repository.remote.stores import StoredObject
from charonia.repository.scan import scan

URL = "s3://bucket/models"


def tree(*keys, stamp="1", size=1):
    return ObjectTree.of(URL, "bucket/models", [StoredObject(f"bucket/models/{key}", size, stamp) for key in keys])


def names(made, path=""):
    return [entry.name for entry in made.listing(f"{URL}/{path}".rstrip("/"))]


def test_objects_are_files_in_folders():
    made = tree("m/config.pbtxt", "m/1/model.onnx", "m/1/sub/data", "n/2/x", "readme.txt", "m/.hidden")
    assert names(made) == ["m", "n", "readme.txt"]
    assert names(made, "m") == ["1", "config.pbtxt"]
    assert names(made, "m/1") == ["model.onnx", "sub"]
    assert [entry.is_dir() for entry in made.listing(URL)] == [True, True, False]
    objects, folders = made.model("m")
    assert sorted(objects) == [".hidden", "1/model.onnx", "1/sub/data", "config.pbtxt"]
    assert sorted(folders) == ["1", "1/sub"]


def test_objects_that_mark_folders_are_folders():
    made = tree("", "ens/1/", "ens/config.pbtxt", size=0)
    assert names(made, "ens") == ["1", "config.pbtxt"]
    assert names(made, "ens/1") == []


def test_what_is_not_there():
    made = tree("m/1/x")
    with pytest.raises(FileNotFoundError):
        made.listing(f"{URL}/n")
    with pytest.raises(NotADirectoryError):
        made.listing(f"{URL}/m/1/x")


@pytest.mark.parametrize(
    "key",
    [
        "m/../../etc/passwd",
        "/etc/passwd",
        "m//x",
        "m/./x",
        "..",
        "m/a\nb",
        "m/\0",
        "m/\ud800",
        f"m/{'x' * 256}",
        "/".join("x" * 70),
        f"m/{'/'.join(['y' * 200] * 6)}",
    ],
)
def test_names_that_can_not_be_files_are_left_out_and_told(key):
    made = tree(key, "m/1/x")
    assert sorted(made.objects) == ["m/1/x"]
    (remark,) = made.remarks
    assert "ignored" in remark.message
    assert str(remark).isprintable()


@pytest.mark.parametrize("key", ["m/1/ä +%25#?.txt", "模型/1/x", "m/1/a\\b", "m/1/C:x", "m/1/..x", "m/1/x y"])
def test_odd_names_that_can_be_files(key):
    assert list(tree(key).objects) == [key]


def test_a_name_that_is_a_file_and_a_folder_is_the_folder():
    made = tree("m/1", "m/1/x")
    assert names(made, "m") == ["1"]
    assert list(made.objects) == ["m/1/x"]
    assert "folder" in made.remarks[0].message


def test_the_scanner_takes_it_as_any_repository():
    found = scan([URL], tree("m/1/model.onnx", "m/config.pbtxt", "n/01/x", "loose.onnx"))
    assert list(found.models) == ["m", "n"]
    assert found.models["m"].versions == (1,)
    assert "leading zeros" in str(found.models["n"].warnings[0])
    assert "s3://bucket/models/loose/1/model.onnx" in str(found.warnings[0])


def test_the_folder_of_one_model_is_no_repository():
    found = scan([URL], tree("config.pbtxt", "1/model.onnx"))
    assert "give --model-repository=s3://bucket" in str(found.warnings[0])


def test_changes_are_seen_in_the_listing():
    before = fingerprint(f"{URL}/m", tree("m/1/x", "m/2/x"))
    assert before == fingerprint(f"{URL}/m", tree("m/1/x", "m/2/x", "other/1/x"))
    assert before != fingerprint(f"{URL}/m", tree("m/1/x", "m/2/x", stamp="2"))
    assert before != fingerprint(f"{URL}/m", tree("m/1/x", "m/2/x", size=2))
    more = fingerprint(f"{URL}/m", tree("m/1/x", "m/2/x", "m/3/x"))
    assert before != more
    assert before.same_version(more, 1)
