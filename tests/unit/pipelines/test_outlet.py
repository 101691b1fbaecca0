"""Handing on in order: what goes wrong with one thing does not keep the others."""

import pytest

from charonia.pipelines.outlet import Outlet


def test_what_is_added_while_others_are_handed_on_follows_them():
    handed = []

    def hand_on(things):
        handed.append(things)
        if things == [1, 2]:
            outlet.add(3)
            outlet.flush()

    outlet = Outlet(hand_on)
    for thing in (1, 2):
        outlet.add(thing)
    outlet.flush()
    assert handed == [[1, 2], [3]]


def test_after_a_failure_the_next_flush_hands_on_what_waits():
    handed = []

    def hand_on(things):
        if things == [1]:
            outlet.add(2)
            raise OSError("no way out")
        handed.append(things)

    outlet = Outlet(hand_on)
    outlet.add(1)
    with pytest.raises(OSError, match="no way out"):
        outlet.flush()
    outlet.add(3)
    outlet.flush()
    assert handed == [[2, 3]]
