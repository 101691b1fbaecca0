"""Label files of outputs."""

import os
from pathlib import Path

import pytest

from charonia.config.schema import ModelConfig
from charonia.core.errors import InvalidArgumentError
from charonia.repository.labels import read_labels


def config(filename: str) -> ModelConfig:
    made = ModelConfig(name="m")
    made.output.add(name="Y", label_filename=filename)
    made.output.add(name="Z")
    return made


def test_one_label_a_line(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("cat\ndög\n", encoding="utf-8")
    assert read_labels(config("labels.txt"), tmp_path) == {"Y": ("cat", "dög")}


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"model 'm', output 'Y'.*'labels.txt' can't be read"):
        read_labels(config("labels.txt"), tmp_path)


def test_a_file_outside_the_models_folder(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("x")
    (tmp_path / "m").mkdir()
    with pytest.raises(InvalidArgumentError, match="outside"):
        read_labels(config("../secret"), tmp_path / "m")


def test_a_pipe_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "labels.txt")
    with pytest.raises(InvalidArgumentError, match=r"can't be read: .*a pipe"):
        read_labels(config("labels.txt"), tmp_path)


@pytest.mark.parametrize("name", ["circle", "a\0b"])
def test_a_link_in_a_circle_and_a_name_that_is_none(tmp_path: Path, name: str) -> None:
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(InvalidArgumentError, match="can't be read"):
        read_labels(config(name), tmp_path)
