"""Memory for copies of regions: counted, bounded, and free again with its last user."""

import numpy as np
import pytest

from charonia.core.errors import InvalidArgumentError, UnavailableError
from charonia.memory.copies import Copies

LIMIT = 20_000


def test_what_is_held_is_counted_until_nobody_uses_it():
    copies = Copies(LIMIT)
    first, second = copies.array(8000), copies.array(12_000)
    with pytest.raises(UnavailableError, match=r"an input of 5000 bytes .* requests hold 20000 bytes .* and 20000 is"):
        copies.array(5000)
    view = memoryview(first)
    del first
    assert copies.held_bytes == 20_000
    del view
    assert copies.held_bytes == 12_000
    assert copies.array(8000).nbytes == 8000
    del second
    assert copies.held_bytes == 0


def test_small_ones_are_not_counted():
    copies = Copies(4096)
    held = [copies.array(4095) for _ in range(10)]
    assert (copies.held_bytes, len(held)) == (0, 10)


def test_what_is_never_given_at_once():
    Copies(LIMIT).check("x", LIMIT)
    Copies().check("x", 1 << 62)
    with pytest.raises(InvalidArgumentError, match=r"has 20001 bytes in shared memory, which exceeds .* 20000"):
        Copies(LIMIT).check("x", LIMIT + 1)


@pytest.mark.parametrize("nbytes", [10, 1 << 50])
def test_a_machine_without_memory(monkeypatch, nbytes):
    def empty(*arguments):
        raise MemoryError

    monkeypatch.setattr(np, "empty", empty)
    copies = Copies()
    with pytest.raises(UnavailableError, match=f"no memory for an input of {nbytes} bytes"):
        copies.array(nbytes)
    assert copies.held_bytes == 0
