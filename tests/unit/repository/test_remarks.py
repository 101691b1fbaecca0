"""Warnings that are said once."""

from charonia.repository.remarks import Remarks
from charonia.testing.log import kept_log


def test_what_is_still_there_is_not_said_again_and_what_comes_back_is() -> None:
    log, written = kept_log()
    remarks = Remarks(log)
    for look in (["a", "b", "a"], ["b"], ["b", "a"], ["a"]):
        remarks.warn(look)
    assert [line[-2] for line in written.lines] == ["a", "b", "a"]
