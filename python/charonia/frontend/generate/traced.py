"""The end of a traced generate call: its answer is written by the thread that replies."""

import time
from collections.abc import Sequence

from charonia.core.request import Reply, ReplyChannel
from charonia.observe.traces.record import Trace


class LeavingChannel:
    """A ReplyChannel before another one that writes the answer: it tells the trace when that has been written."""

    def __init__(self, channel: ReplyChannel, trace: Trace) -> None:
        self._channel = channel
        self._trace = trace

    def send(self, replies: Sequence[Reply]) -> None:
        start_ns = time.monotonic_ns()
        self._channel.send(replies)
        if any(reply.final for reply in replies):
            self._trace.left((start_ns, time.monotonic_ns()))
