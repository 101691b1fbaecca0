"""The server's side of the link to a model's process: a batch out, its answer in.

One frame each way for a batch (layout: `child/batch.py`). The instance's own thread writes and then reads, so a plain
batch costs one hand-off to the process and one back, and no other thread is woken. What response senders send comes
beside it (`child/responding.py`), on the thread that listens to all processes.
"""

import threading
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from charonia.backends.base import Batch
from charonia.backends.python.answers import AnswerReader
from charonia.backends.python.child import wire
from charonia.backends.python.child.arena import Arena, Block, Region
from charonia.backends.python.child.columns import Packer
from charonia.backends.python.child.devices import Opened
from charonia.backends.python.child.responding import drained
from charonia.backends.python.encoding import callers_of, facts_of, groups_of, requested_of
from charonia.backends.python.open_requests import CANCEL_SLOTS, OpenRequests
from charonia.backends.python.outbox import Outbox
from charonia.backends.python.outputs import OutputCheck
from charonia.backends.python.work_channel import WorkChannel
from charonia.core.errors import CharoniaError, UnavailableError
from charonia.core.request import InferRequest
from charonia.core.tensor import Tensor


class OutOfStep(wire.LinkClosed):
    """The process answers another batch than the one that it was sent: its answers are of no use any more."""


class Link:
    """Exchanges batches with one process. For the instance's thread; `responses` and `fail_open` come on others.

    Args:
        inputs: shared memory that this side writes; its first CANCEL_SLOTS bytes are cancel flags.
        outputs: shared memory that the process writes.
        outbox: frames to the process beside the batches.
        keeps_devices: inputs on a device stay there.
    """

    def __init__(
        self,
        work: WorkChannel,
        inputs: Arena,
        outputs: Region,
        outbox: Outbox,
        check: OutputCheck,
        keeps_devices: bool = False,
    ) -> None:
        self._work = work
        self._keeps_devices = keeps_devices
        self._inputs = InputBlocks(inputs)
        self._correlation = 0
        self._dropped_outputs: deque[int] = deque()  # lent outputs that have gone, from any thread
        lend_output = partial(Block, outputs, released=self._dropped_outputs)
        # Not a method: what holds itself in a circle, and with it mapped memory, would outlive its process.
        open_device = partial(_opened, self._dropped_outputs)
        self._answers = AnswerReader(check, self._inputs.lend, lend_output, open_device)
        flags = memoryview(inputs.region.view)[:CANCEL_SLOTS]
        self._open = OpenRequests(flags, self._answers, outbox, self._dropped_outputs)

    def exchange(self, batch: Batch, on_call: Callable[[wire.Frame], None]) -> None:
        """Execute a batch and answer its requests, all but those whose response senders answer them.

        Args:
            on_call: takes calls of other models for which the process waits. Not kept: it refers to the process's life.

        Raises:
            LinkClosed: the process has gone; nothing of this batch is answered then but by senders.
            OutOfStep: as LinkClosed, but the process is to be ended by the caller.
        """
        self._inputs.free_returned()
        first = self._open.begin(batch)
        answered: Sequence[int] = range(len(batch.requests))
        try:
            self._send(batch, first)
            while (frame := self._work.receive()).kind == wire.INFER:
                on_call(frame)
            if frame.correlation != self._correlation:  # after a fault of ours in the midst of an exchange
                raise OutOfStep(f"it answered exchange {frame.correlation} in place of {self._correlation}")
            self._work.send_notices()
            if frame.meta[0] or frame.meta[2]:  # what senders answer is computed later
                batch.outputs_ready()
            answered = self._answers.deliver(batch, frame.meta, frame.payload)
            self._inputs.release(frame.meta[3])
        except wire.LinkClosed:
            answered = ()
            raise
        finally:
            self._open.executed(answered)
        if len(answered) < len(batch.requests):
            batch.hold()
            batch.ready_for_next()

    def responses(self, meta: Any, payload: bytearray) -> Sequence[Batch]:
        """A RESPONSES frame has come. The batches that are to be flushed, when no more frames are there."""
        items, released = meta
        touched = self._open.deliver(items, payload)
        self._inputs.release(released)
        return touched

    def call_inputs(self, columns: Any, payload: bytearray) -> list[Tensor]:
        """The inputs of a call that the process makes: parts of the frame, or lent from shared memory."""
        return self._answers.tensors(columns, payload)

    def open_requests(self) -> list[InferRequest]:
        """Those that the process has not answered to the end."""
        return self._open.requests()

    def fail_open(self, error: CharoniaError) -> None:
        """The process has gone: every request that it has not answered to the end fails."""
        self._open.fail_all(error)

    def _send(self, batch: Batch, key: int) -> None:
        packer = Packer(self._inputs.arena)
        try:
            groups = groups_of(packer, batch.requests, self._keeps_devices)
        except OSError as error:
            packer.undo()
            raise UnavailableError(
                f"no shared memory for the inputs of {len(batch.requests)} requests: {error}"
            ) from None
        self._inputs.hold(packer.placed)
        requested = requested_of(batch.requests)
        meta = (
            key,
            facts_of(batch.requests),
            requested,
            groups,
            drained(self._dropped_outputs),
            callers_of(batch.requests),
        )
        self._correlation = (self._correlation + 1) & 0xFFFFFFFF
        batch.inputs_ready()
        self._work.send(wire.BATCH, self._correlation, meta, packer.parts)


class InputBlocks:
    """Who still needs which input block: the process that was sent it, and outputs that are lent from it.

    Any thread may use it.
    """

    def __init__(self, arena: Arena) -> None:
        self._lock = threading.Lock()
        self.arena = arena
        self._holds: dict[int, int] = {}
        self._returned: deque[int] = deque()  # filled from any thread

    def hold(self, offsets: Sequence[int]) -> None:
        """Fresh blocks, which the process holds from now on."""
        with self._lock:
            for offset in offsets:
                self._holds[offset] = 1

    def lend(self, offset: int, nbytes: int) -> tuple[Block, int]:
        """Memory of an input that comes back as an output, and the block that it lies in."""
        with self._lock:
            block = max(start for start in self._holds if start <= offset)
            self._holds[block] += 1
        return Block(self.arena.region, offset, nbytes, self._returned, block), block

    def release(self, offsets: Sequence[int]) -> None:
        """One hold less on each; blocks that nobody holds are freed."""
        if not offsets:
            return
        with self._lock:
            for offset in offsets:
                self._holds[offset] -= 1
                if not self._holds[offset]:
                    del self._holds[offset]
                    self.arena.free(offset)

    def free_returned(self) -> None:
        """Release what lent outputs have given back meanwhile."""
        self.release(drained(self._returned))


def _opened(dropped: deque[int], handle: Any, nbytes: int, key: int) -> Opened:
    """Memory on a device that the process lends; its key is appended to `dropped` when nobody uses it any more."""
    return Opened(handle, nbytes, dropped, key)
