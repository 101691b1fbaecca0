"""A tracer over a clock that stands still, with a sink that keeps what it is given."""

from itertools import count

import numpy as np

from charonia.core.log import SilentLog
from charonia.core.request import Reply
from charonia.core.tensor import Tensor
from charonia.observe.stamps import Stamps
from charonia.observe.traces.config import parse_trace_config
from charonia.observe.traces.context import new_context
from charonia.observe.traces.record import Trace
from charonia.observe.traces.setting import Level, TraceSetting, TraceValues
from charonia.observe.traces.tracer import Tracer
from charonia.testing.clock import ManualClock
from charonia.testing.requests import KeptReplies, make_request


def no_header(name):
    return None


class KeptTraces:
    """A sink."""

    def __init__(self):
        self.traces = []
        self.settings = []
        self.closed = False

    def take(self, trace):
        trace.setting.finished()
        self.traces.append(trace)

    def retired(self, setting):
        self.settings.append(setting)

    def close(self):
        self.closed = True


def make_tracer(*settings, sink=None, log=None):
    """Its writer does not run: what it is handed waits."""
    config = parse_trace_config(("triton,file=traces.json", *settings), {})
    return Tracer(config, ManualClock(), log or SilentLog(), lambda name, error: None, sink or KeptTraces())


class World:
    """One trace at a time, driven by hand."""

    def __init__(self, level=Level.TIMESTAMPS, *, spans=False, rate=1, count_=-1, log_frequency=0):
        self.clock = ManualClock(1000)
        self.done = []
        self.setting = TraceSetting(TraceValues(level, rate, count_, log_frequency))
        self.channel = KeptReplies()
        self._numbers = count(1)
        self._spans = spans

    def trace(self, front="HTTP", parent=None):
        assert self.setting.sample()
        context = (parent.child() if parent else new_context()) if self._spans else None
        return Trace(self.setting, front, 900, 950, self.clock, self._numbers, self.done.append, context, parent)

    def request(self, model="m", **options):
        return make_request(self.channel, model, **options)

    def execute(self, request, outputs=(), version="3", **reply):
        """As a scheduler and an instance would."""
        request.queue_start_ns = self.clock.now_ns() + 10
        request.version = version
        start = self.clock.now_ns() + 20
        self.clock.advance(us=1)
        answer = Reply(request, outputs, **reply)
        if answer.final:
            answer.timing = Stamps(start, start + 5, start + 15, start + 30)
        request.channel.send((answer,))

    def traced(self, *outputs, **options):
        """A whole trace of one request."""
        trace = self.trace()
        request = self.request(**options)
        trace.begin(request)
        self.execute(request, outputs)
        trace.left((self.clock.now_ns(), self.clock.now_ns() + 7))
        return self.done.pop()


def tensor(name, *values, dtype=np.int32):
    return Tensor.from_numpy(name, np.array(values, dtype), owned=True)
