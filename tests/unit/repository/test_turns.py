"""Whose turn it is on a model."""

import threading

import pytest

from charonia.core.errors import InvalidArgumentError
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
    with turns.of("a", "b"):
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

    def interrupted(event: threading.Event) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(threading.Event, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt), turns.of("m"):
            done.append("interrupted")
    assert turns.busy("m")
    first.finish()
    with turns.of("m"):
        done.append("next")
    assert done == ["first", "next"]


def test_operations_on_several_models_never_wait_for_one_another_in_a_circle() -> None:
    """Whatever order they name them in: who came first is the first in every queue."""
    turns, done = Turns(), []

    def run(label: int, names: tuple[str, ...]) -> None:
        for _ in range(200):
            with turns.of(*names):
                done.append(label)

    orders = [("a", "b", "c"), ("c", "b", "a"), ("b", "a"), ("c", "a")]
    threads = [threading.Thread(target=run, args=each, daemon=True) for each in enumerate(orders)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(done) == 800


def test_an_operation_within_another_takes_the_turns_of_other_models() -> None:
    turns = Turns()
    with turns.of("a") as outer, turns.of("b", within=outer) as inner, turns.of("c", within=inner):
        assert all(turns.busy(name) for name in "abc")
    assert not any(turns.busy(name) for name in "abc")


@pytest.mark.parametrize("name", ["a", "b"])
def test_an_operation_that_would_wait_for_itself_is_refused(name: str) -> None:
    turns = Turns()
    with turns.of("a") as outer, turns.of("b", within=outer) as inner:
        refused = pytest.raises(InvalidArgumentError, match=f"model '{name}' can't be loaded or unloaded from here")
        with refused, turns.of(name, within=inner):
            pass
        assert not turns.waiting(name)


def test_two_operations_that_would_wait_for_each_other_through_inner_ones_are_refused() -> None:
    """The load of a loads b, while the load of b loads a."""
    turns, came = Turns(), []
    with turns.of("a") as a, turns.of("b") as b:

        def inner() -> None:
            with turns.of("b", within=a):
                came.append("b")

        thread = threading.Thread(target=inner)
        thread.start()
        while not turns.waiting("b"):
            pass
        with pytest.raises(InvalidArgumentError, match="model 'a'"), turns.of("a", within=b):
            pass
        assert not came
    thread.join(PATIENCE_S)
    assert came == ["b"]


def test_an_operation_that_is_over_is_in_nobody_s_way() -> None:
    turns = Turns()
    with turns.of("a") as outer:
        pass
    with turns.of("a", within=outer):
        assert turns.busy("a")
