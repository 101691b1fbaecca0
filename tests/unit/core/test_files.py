"""What stands where a file should."""

import os
from pathlib import Path

import pytest

from charonia.core.files import read_regular


def test_the_content_or_the_beginning_of_it(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(b"abcdef")
    assert read_regular(tmp_path / "x") == b"abcdef"
    assert read_regular(tmp_path / "x", 2) == b"ab"


def test_a_pipe_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="no regular file but a pipe or a device"):
        read_regular(tmp_path / "pipe")


def test_a_device_without_an_end_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "zero").symlink_to("/dev/zero")
    with pytest.raises(OSError, match="no regular file but a pipe or a device"):
        read_regular(tmp_path / "zero")


def test_a_folder(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        read_regular(tmp_path)
