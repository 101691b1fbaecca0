"""Many changes, few publications, and never a change that is not shown."""

import threading
from collections.abc import Callable

import pytest

from charonia.repository.publication import Publication

PATIENCE_S = 10.0


def test_a_change_is_shown_when_show_returns() -> None:
    shown: list[int] = []
    publication = Publication(lambda: shown.append(len(shown)))
    publication.show()
    publication.show()
    assert shown == [0, 1]


@pytest.mark.parametrize("publisher", [Publication.announce, Publication.show])
def test_changes_that_come_during_a_publication_share_the_next_one(publisher: Callable[[Publication], None]) -> None:
    state, shown = [0], []
    begun, go_on = threading.Event(), threading.Event()

    def publish() -> None:
        shown.append(state[0])
        begun.set()
        assert go_on.wait(PATIENCE_S)

    publication = Publication(publish)
    first = threading.Thread(target=publisher, args=(publication,))
    first.start()
    assert begun.wait(PATIENCE_S)
    for value in range(1, 100):
        state[0] = value
        publication.announce()  # returns at once: the first thread takes it along
    go_on.set()
    first.join(PATIENCE_S)
    assert shown == [0, 99]


def test_whoever_waits_together_is_served_together() -> None:
    shown: list[None] = []
    begun, go_on = threading.Event(), threading.Event()

    def publish() -> None:
        shown.append(None)
        begun.set()
        assert go_on.wait(PATIENCE_S)

    publication = Publication(publish)
    threads = [threading.Thread(target=publication.show) for _ in range(50)]
    threads[0].start()
    assert begun.wait(PATIENCE_S)
    for thread in threads[1:]:
        thread.start()
    go_on.set()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert 2 <= len(shown) <= 50
