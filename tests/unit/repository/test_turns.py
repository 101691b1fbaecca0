"""Whose turn it is on a model."""

import threading
from collections.abc import Iterator

import pytest

from charonia.repository.turns import Turns

PATIENCE_S = 10.0


class Operation:
    """An operation on a thread of its own, which keeps its turn until it is told to end."""

    def __init__(self, turns: Turns, name: str, done: list[object], label: object) -> None:
        self._turns, self._name, self._done, self._label = turns, name, done, label
        self.began, self.end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self._turns.of(self._name):
            self._done.append(self._label)
            self.began.set()
            assert self.end.wait(PATIENCE_S)

    def finish(self) -> None:
        self.end.set()
        self._thread.join(PATIENCE_S)


def test_operations_on_one_model_come_in_the_order_in_which_they_were_asked_for() -> None:
    turns, done = Turns(), []
    first = Operation(turns, "m", done, 0)
    assert first.began.wait(PATIENCE_S)
    others = []
    for label in range(1, 20):
        others.append(Operation(turns, "m", done, label))
        while turns.waiting("m") < label:  # until it stands in the queue; the next one comes behind it
            pass
    assert done == [0]
    for each in (first, *others):
        each.finish()
    assert done == list(range(20))
    assert not turns.busy("m")


def test_different_models_do_not_wait_for_one_another() -> None:
    turns, done = Turns(), []
    one, other = Operation(turns, "one", done, 1), Operation(turns, "other", done, 2)
    assert one.began.wait(PATIENCE_S)
    assert other.began.wait(PATIENCE_S)
    assert turns.busy("one")
    for each in (one, other):
        each.finish()


def test_the_turns_of_many_models_are_kept_and_given_back_together() -> None:
    turns, done = Turns(), []
    with turns.of_all(["a", "b"]):
        waiting = Operation(turns, "b", done, "b")
        assert turns.busy("a")
        assert not done
    assert waiting.began.wait(PATIENCE_S)
    waiting.finish()
    assert not turns.busy("a")


def test_a_failed_operation_gives_its_turn_back() -> None:
    turns = Turns()
    try:
        with turns.of("m"):
            raise ValueError
    except ValueError:
        pass
    assert not turns.busy("m")


def test_who_stops_waiting_leaves_the_turn_to_the_next() -> None:
    turns, done = Turns(), []
    first = Operation(turns, "m", done, "first")
    assert first.began.wait(PATIENCE_S)

    def interrupted() -> Iterator[str]:
        yield "m"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), turns.of_all(interrupted()):
        done.append("interrupted")
    assert turns.busy("m")
    first.finish()
    with turns.of("m"):
        done.append("next")
    assert done == ["first", "next"]
