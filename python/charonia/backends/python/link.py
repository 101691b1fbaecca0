"""The server's side of the link to a model's process: a batch out, its answer in.

One frame each way for a batch (layout: `child/batch.py`). The instance's own thread writes and then reads, so a plain
batch costs one hand-off to the process and one back, and no other thread is woken.
"""

from collections import deque
from collections.abc import Sequence
from functools import partial

from charonia.backends.base import Batch
from charonia.backends.python.answers import AnswerReader
from charonia.backends.python.child import wire
from charonia.backends.python.child.arena import Arena, Block, Region
from charonia.backends.python.child.columns import Packer
from charonia.backends.python.encoding import facts_of, groups_of, requested_of
from charonia.backends.python.outputs import OutputCheck
from charonia.core.errors import UnavailableError
from charonia.core.request import InferRequest

CANCEL_SLOTS = 65536


class Link:
    """Exchanges batches with one process. For the instance's thread only; cancellations come from any thread.

    Args:
        inputs: shared memory that this side writes; its first CANCEL_SLOTS bytes are cancel flags.
        outputs: shared memory that the process writes.
    """

    def __init__(
        self,
        work: wire.Channel,
        inputs: Arena,
        outputs: Region,
        check: OutputCheck,
    ) -> None:
        self._work = work
        self._inputs = InputBlocks(inputs)
        self._flags = memoryview(inputs.region.view)[:CANCEL_SLOTS]
        self._slot = 0
        self._correlation = 0
        self._dropped_outputs: deque[int] = deque()  # lent outputs that have gone, from any thread
        self._answers = AnswerReader(check, self._inputs.lend, partial(Block, outputs, released=self._dropped_outputs))

    def exchange(self, batch: Batch) -> None:
        """Execute a batch and answer every request of it.

        Raises:
            LinkClosed: the process has gone; nothing is answered then.
        """
        requests = batch.requests
        self._inputs.free_returned()
        slot = self._watch(requests)
        try:
            self._send(batch, slot)
            frame = self._work.receive()
        finally:
            for request in requests:
                request.on_cancel(None)
        batch.outputs_ready()
        failures, parameters, groups, released = frame.meta
        self._answers.deliver(batch, failures, parameters, groups, frame.payload, released)
        self._inputs.release(released)

    def _watch(self, requests: Sequence[InferRequest]) -> int:
        """Give each request a cancel flag that the process can see; the number of the first."""
        slot = self._slot
        if slot + len(requests) > CANCEL_SLOTS:
            slot = 0
        self._slot = slot + len(requests)
        self._flags[slot : self._slot] = bytes(len(requests))
        for index, request in enumerate(requests, slot):
            request.on_cancel(partial(self._flags.__setitem__, index, 1))
        return slot

    def _send(self, batch: Batch, slot: int) -> None:
        packer = Packer(self._inputs.arena)
        try:
            groups = groups_of(packer, batch.requests)
        except OSError as error:
            packer.undo()
            raise UnavailableError(
                f"no shared memory for the inputs of {len(batch.requests)} requests: {error}"
            ) from None
        self._inputs.hold(packer.placed)
        requested = requested_of(batch.requests)
        meta = (slot, facts_of(batch.requests), requested, groups, _drain(self._dropped_outputs))
        self._correlation = (self._correlation + 1) & 0xFFFFFFFF
        batch.inputs_ready()
        self._work.send(wire.BATCH, self._correlation, meta, packer.parts)


class InputBlocks:
    """Who still needs which input block: the process that was sent it, and outputs that are lent from it."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena
        self._holds: dict[int, int] = {}
        self._returned: deque[int] = deque()  # filled from any thread

    def hold(self, offsets: Sequence[int]) -> None:
        """Fresh blocks, which the process holds from now on."""
        for offset in offsets:
            self._holds[offset] = 1

    def lend(self, offset: int, nbytes: int) -> tuple[Block, int]:
        """Memory of an input that comes back as an output, and the block that it lies in."""
        block = max(start for start in self._holds if start <= offset)
        self._holds[block] += 1
        return Block(self.arena.region, offset, nbytes, self._returned, block), block

    def release(self, offsets: Sequence[int]) -> None:
        """One hold less on each; blocks that nobody holds are freed."""
        for offset in offsets:
            self._holds[offset] -= 1
            if not self._holds[offset]:
                del self._holds[offset]
                self.arena.free(offset)

    def free_returned(self) -> None:
        """Release what lent outputs have given back meanwhile."""
        self.release(_drain(self._returned))


def _drain(offsets: deque[int]) -> list[int]:
    drained = []
    while offsets:
        drained.append(offsets.popleft())
    return drained
