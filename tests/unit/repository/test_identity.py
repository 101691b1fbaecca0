"""What a model is to servers that share a cache: the same wherever it lies, another one if it may answer otherwise."""

import os

import pytest

from charonia.config.schema import ModelConfig
from charonia.repository.identity import IdentifiedModel


def lay_out(folder, **files):
    return write(folder, {"1/model.onnx": "weights", "labels.txt": "cat"} | files)


def write(folder, files):
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    return folder


def identity(folder, version=1, name="m", **fields):
    return IdentifiedModel(name, version, ModelConfig(name="m", **fields), folder).identity


def test_the_same_model_elsewhere_and_of_another_time(tmp_path):
    one, two = lay_out(tmp_path / "one"), lay_out(tmp_path / "two")
    os.utime(two / "1" / "model.onnx", (1, 1))
    assert identity(one) == identity(two)
    config = ModelConfig(name="m")
    config.instance_group.add(count=7)
    assert IdentifiedModel("m", 1, config, one).identity == identity(two)


OTHERS = {
    "contents of the same size": {"1/model.onnx": "WEIGHTS"},
    "another file": {"1/more.bin": ""},
    "a file for every version": {"labels.txt": "dog"},
}


@pytest.mark.parametrize("files", OTHERS.values(), ids=OTHERS)
def test_other_files(tmp_path, files):
    assert identity(lay_out(tmp_path / "one")) != identity(lay_out(tmp_path / "two", **files))


def test_another_name_version_or_configuration(tmp_path):
    folder = lay_out(tmp_path / "m", **{"2/model.onnx": "weights"})
    found = [identity(folder), identity(folder, 2), identity(folder, name="n"), identity(folder, max_batch_size=4)]
    assert len({*found, identity(None)}) == 5


def test_other_versions_and_what_a_load_leaves_behind_do_not_matter(tmp_path):
    folder = lay_out(tmp_path / "m")
    before = identity(folder)
    write(folder, {"2/model.onnx": "x", "1/__pycache__/model.pyc": "x", "config.pbtxt": "x"})
    assert identity(folder) == before


def test_a_change_during_the_load_is_seen(tmp_path):
    folder = lay_out(tmp_path / "m")
    loading = IdentifiedModel("m", 1, ModelConfig(), folder)
    write(folder, {"2/model.onnx": "x"})
    assert not loading.has_changed()
    write(folder, {"1/model.onnx": "other"})
    assert loading.has_changed()


def test_a_file_that_can_not_be_read(tmp_path):
    folder = lay_out(tmp_path / "m")
    (folder / "1" / "gone").symlink_to(tmp_path / "nowhere")
    assert identity(folder) is None
