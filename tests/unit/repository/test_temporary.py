"""Folders that go with their last holder, and with a server that was killed."""

import os
import stat

from charonia.core.temporary import TemporaryFolders
from charonia.repository.temporary import TemporaryFolder


def test_a_folder_goes_with_its_last_holder(tmp_path):
    folders = TemporaryFolders("test-", tmp_path)
    root = folders.make()
    folder = TemporaryFolder(root, root / "m")
    folder.path.mkdir()
    folder.hold()
    folder.release()
    assert folder.path.is_dir()
    folder.release()
    assert not root.exists()
    folders.close()


def test_only_this_user_may_enter_and_nothing_is_left(tmp_path):
    folders = TemporaryFolders("test-", tmp_path)
    folders.make()
    (root,) = tmp_path.iterdir()
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    folders.close()
    folders.close()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path):
    for name in ("test-dead", "test-without-a-lock", "other-dead"):
        (tmp_path / name / "m").mkdir(parents=True)
    for name in ("test-dead", "other-dead"):
        (tmp_path / name / ".in-use").touch()
    living = TemporaryFolders("test-", tmp_path)
    kept = living.make()
    again = TemporaryFolders("test-", tmp_path)
    again.make()
    assert kept.is_dir()
    left = {path.name for path in tmp_path.iterdir()}
    assert "test-dead" not in left
    assert {"test-without-a-lock", "other-dead"} < left
    living.close()
    again.close()


def test_a_lock_that_leads_elsewhere_is_left_alone(tmp_path):
    (tmp_path / "test-trap").mkdir()
    (tmp_path / "file").touch()
    os.symlink(tmp_path / "file", tmp_path / "test-trap" / ".in-use")
    folders = TemporaryFolders("test-", tmp_path)
    folders.make()
    assert (tmp_path / "test-trap").is_dir()
    folders.close()
