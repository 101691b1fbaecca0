"""Poll control, looked at by hand."""

import pytest

from charonia.repository.polling import Poller
from charonia.repository.source import look_around
from tests.unit.repository.served import PATIENCE_S, Repository, Served, polling_of

BROKEN = "no_such_field: 1"


class Polled(Served):
    """A server under poll control, whose repositories are looked at when the test says so."""

    def __init__(self, *repositories: Repository) -> None:
        super().__init__(*repositories, mode="poll")
        server = self.server
        repositories = server._repositories
        self.polling = polling_of(server)
        self.polling.begin(look_around(repositories)[1])

    def look(self) -> int:
        """Look once and wait for what it began; gives how much that was."""
        begun = self.polling.look()
        for each in begun:
            each.result(PATIENCE_S)
        self.settle()
        return len(begun)

    def close(self) -> None:
        self.polling.close()
        super().close()


@pytest.fixture
def repository(tmp_path):
    made = Repository(tmp_path / "models")
    made.add("m", 1)
    return made


@pytest.fixture
def polled(repository):
    made = Polled(repository)
    yield made
    made.close()


def test_nothing_is_done_while_nothing_changes(polled):
    before = polled.version("m")
    assert [polled.look() for _ in range(3)] == [0, 0, 0]
    assert polled.version("m") is before


def test_a_new_model_is_loaded_once_two_looks_have_seen_the_same(polled, repository):
    repository.add("new", 1)
    assert polled.look() == 0
    assert polled.index("new") == [(None, None)]
    repository.write("new/1/model", "more of it")  # still being copied
    assert polled.look() == 0
    assert polled.look() == 1
    assert polled.index("new") == [(1, "READY")]
    assert polled.look() == 0


def test_a_changed_model_is_loaded_anew(polled, repository):
    before = polled.version("m")
    repository.add("m", batch=8)
    assert [polled.look(), polled.look()] == [0, 1]
    assert polled.version("m") is not before
    assert polled.version("m").config.max_batch_size == 8


def test_a_model_that_is_gone_is_unloaded_and_its_entry_goes(polled, repository):
    repository.remove("m")
    assert polled.look() == 0
    assert polled.index("m") == [(1, "READY")]
    assert polled.look() == 1
    assert polled.index() == []
    assert polled.server.ready


def test_a_model_that_is_moved_away_and_back_between_two_looks_serves_on(polled, repository):
    before = polled.version("m")
    repository.remove("m")
    polled.look()
    repository.add("m", 1, batch=8)
    assert [polled.look(), polled.look()] == [0, 1]
    assert polled.version("m") is not before


def test_a_bad_model_keeps_no_other_from_being_loaded(polled, repository):
    repository.add("bad", 1, more=BROKEN)
    repository.add("good", 1)
    assert [polled.look(), polled.look()] == [0, 2]
    assert polled.index("good") == [(1, "READY")]
    assert polled.index("bad") == [(None, "UNAVAILABLE")]
    assert "no_such_field" in polled.reason("bad")
    assert not polled.server.ready


def test_a_failed_load_is_tried_again_when_the_files_change(polled, repository):
    repository.add("bad", 1, more=BROKEN)
    assert [polled.look() for _ in range(4)] == [0, 1, 0, 0]
    repository.add("bad", 1)
    assert [polled.look() for _ in range(3)] == [0, 1, 0]
    assert polled.index("bad") == [(1, "READY")]


def test_the_last_good_version_serves_on(polled, repository):
    before = polled.version("m")
    repository.add("m", 1, more=BROKEN)
    assert [polled.look(), polled.look()] == [0, 1]
    assert polled.version("m") is before
    assert polled.index("m") == [(1, "READY")]
    assert polled.server.ready


def test_new_and_removed_versions(polled, repository):
    repository.add("m", 1, 2, more="version_policy { all {} }")
    polled.look(), polled.look()
    one = polled.version("m", 1)
    repository.remove("m/2")
    polled.look(), polled.look()
    assert polled.index("m") == [(1, "READY"), (2, "UNAVAILABLE")]
    assert polled.version("m", 1) is one


def test_a_repository_that_is_away_for_a_moment_unloads_nothing(polled, repository, tmp_path):
    before = polled.version("m")
    repository.path.rename(tmp_path / "elsewhere")
    assert [polled.look() for _ in range(3)] == [0, 0, 0]
    (tmp_path / "elsewhere").rename(repository.path)
    assert polled.look() == 0
    assert polled.version("m") is before
    assert "can't be looked at" in polled.lines.text


def test_a_name_that_comes_to_be_in_two_repositories(repository, tmp_path):
    second = Repository(tmp_path / "second")
    polled = Polled(repository, second)
    try:
        second.add("m", 1)
        polled.look(), polled.look()
        assert polled.index("m") == [(None, "UNAVAILABLE")]
        assert polled.reason("m").startswith("model appears in two or more repositories")
        second.remove("m")
        polled.look(), polled.look()
        assert polled.index("m") == [(1, "READY")]
    finally:
        polled.close()


def test_a_bug_of_a_load_is_told(polled, repository, monkeypatch):
    def broken(name, look):
        raise ZeroDivisionError

    monkeypatch.setattr(polled.server._operations, "load", broken)
    repository.add("m", batch=8)
    assert [polled.look(), polled.look()] == [0, 1]
    assert "polling could not load or unload 'm'" in polled.lines.text
    assert "ZeroDivisionError" in polled.lines.text


def test_an_odd_folder_is_told_once(polled, repository):
    repository.write("model.onnx", "")
    repository.write("m/v2/model", "")
    for _ in range(4):
        polled.look()
    assert (
        polled.lines.text.count("model.onnx' is ignored") + polled.lines.text.count("model.onnx: this file is ignored")
        == 1
    )
    assert polled.lines.text.count("'v2' is ignored as a version") == 1


def test_the_thread_looks_until_it_is_stopped():
    looks, deaths = [], []

    class Looking:
        def look(self):
            looks.append(None)
            if len(looks) == 3:
                poller.stop()

        def close(self):
            looks.append("closed")

    poller = Poller(Looking(), 0.0, lambda name, error: deaths.append(error))
    poller.start()
    poller._thread.join(PATIENCE_S)
    assert looks == [None, None, None, "closed"]
    assert deaths == []


def test_a_bug_of_a_look_is_told():
    deaths = []

    class Broken:
        def look(self):
            raise ZeroDivisionError

        def close(self): ...

    poller = Poller(Broken(), 0.0, lambda name, error: deaths.append((name, type(error))))
    poller.start()
    poller._thread.join(PATIENCE_S)
    assert deaths == [("poll", ZeroDivisionError)]


def test_a_stop_between_two_looks_is_prompt():
    class Quiet:
        def close(self): ...

    poller = Poller(Quiet(), 3600.0, lambda name, error: None)
    poller.start()
    poller.stop()
    poller._thread.join(PATIENCE_S)
    assert not poller._thread.is_alive()
