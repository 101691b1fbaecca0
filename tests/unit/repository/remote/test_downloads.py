"""Many objects to files: side by side, whole or not at all, and what changes meanwhile is taken again."""

import threading

import pytest

from charonia.core.errors import UnavailableError
from charonia.repository.remote.downloads import Downloads
from charonia.repository.remote.stores import StoredObject
from charonia.testing.clock import ManualClock
from charonia.testing.log import kept_log
from tests.unit.repository.remote.fake_store import FakeStore, steady

ROOT = "bucket/models/m"


class Downloading:
    def __init__(self, content):
        self.store = FakeStore({f"{ROOT}/{path}": text for path, text in content.items()})
        self.clock, self.stopping = ManualClock(), threading.Event()
        self.log, self.lines = kept_log()
        self.downloads = Downloads(self.clock, self.stopping)

    def listed(self):
        return {each.key.removeprefix(f"{ROOT}/"): each for each in self.store.objects(ROOT)}

    def take(self, to):
        self.downloads.take("model 'm'", steady(self.store), self.listed(), to, self.listed, self.log)


@pytest.fixture
def made():
    downloading = Downloading({"config": b"c", "1/model": b"old", "1/deep/er": b"x" * 100})
    yield downloading
    downloading.downloads.close()


def files(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_everything_is_brought(made, tmp_path):
    made.take(tmp_path)
    assert files(tmp_path) == {"config": b"c", "1/model": b"old", "1/deep/er": b"x" * 100}
    assert "downloaded model 'm' from host:1: 3 files, 104 bytes in 0.0 s" in made.lines.text


def test_what_changes_while_it_is_downloaded_is_taken_again(made, tmp_path):
    def change(key):
        made.store.on_fetch = lambda key: None
        made.store.put(f"{ROOT}/1/model", b"new")

    made.store.on_fetch = change
    made.take(tmp_path)
    assert files(tmp_path)["1/model"] == b"new"


def test_what_changes_all_the_time_is_not_taken(made, tmp_path):
    made.store.on_fetch = lambda key: made.store.put(f"{ROOT}/1/model", b"new")
    with pytest.raises(UnavailableError, match=r"'1/model' in s3://host:1/bucket/models changed .* 3 times"):
        made.take(tmp_path)


def test_what_is_removed_meanwhile(made, tmp_path):
    made.store.on_fetch = lambda key: made.store.content.pop(f"{ROOT}/1/model", None)
    with pytest.raises(UnavailableError, match="'1/model' was removed from"):
        made.take(tmp_path)


def test_a_file_that_is_cut_off_is_never_under_its_name(made, tmp_path):
    listed = made.listed()
    too_long = {path: StoredObject(each.key, each.size + 1, each.stamp) for path, each in listed.items()}
    with pytest.raises(UnavailableError, match="changed while"):
        made.downloads.take("model 'm'", steady(made.store), too_long, tmp_path, lambda: too_long, made.log)
    assert files(tmp_path) == {}


def test_a_break_in_the_middle_is_no_error(made, tmp_path):
    made.store.faults = []
    listed = made.listed()
    made.store.faults = [ConnectionError("reset")] * 3
    made.downloads.take("model 'm'", steady(made.store), listed, tmp_path, made.listed, made.log)
    assert len(files(tmp_path)) == 3


def test_a_stop_ends_a_download(made, tmp_path):
    made.stopping.set()
    with pytest.raises(UnavailableError, match="the server is stopping"):
        made.take(tmp_path)
    assert files(tmp_path) == {}


def test_progress_is_told_every_few_seconds(made, tmp_path):
    made.store.on_fetch = lambda key: made.clock.advance(s=3)
    made.take(tmp_path)
    told = [line for line in made.lines.lines if "downloading" in line]
    assert len(told) == 1
    assert "of 104 bytes" in told[0]
    assert "of 3 files" in told[0]
