"""A scheduler of sequences whose clock, timer and instances the test drives."""

from google.protobuf import text_format

from charonia.config.schema import ModelConfig
from charonia.core.request import SEQUENCE_END, SEQUENCE_START, Reply
from charonia.scheduling.bell import ConditionBell
from charonia.scheduling.build import NO_AIDS, build_scheduler
from charonia.scheduling.timer import Timer
from charonia.testing.clock import ManualClock
from charonia.testing.requests import KeptReplies, make_request

CONTROLS = """
control_input [
  { name: "START" control { kind: CONTROL_SEQUENCE_START int32_false_true: [ 0, 1 ] } },
  { name: "END" control { kind: CONTROL_SEQUENCE_END int32_false_true: [ 0, 1 ] } },
  { name: "READY" control { kind: CONTROL_SEQUENCE_READY int32_false_true: [ 0, 1 ] } },
  { name: "CORRID" control { kind: CONTROL_SEQUENCE_CORRID data_type: TYPE_UINT64 } }
]
"""
IDLE_US = 1_000_000
START, END, BOTH = SEQUENCE_START, SEQUENCE_END, SEQUENCE_START | SEQUENCE_END


def config_of(batching="direct { }", *, rows=4, more="", controls=CONTROLS, idle_us=IDLE_US):
    text = f'name: "m" max_batch_size: {rows} {more} sequence_batching {{ max_sequence_idle_microseconds: {idle_us} '
    return text_format.Parse(f"{text} {controls} {batching} }}", ModelConfig())


class SequenceWorld:
    """`seats` are there from the start. `refused` and `ended` are what the scheduler has told."""

    def __init__(self, batching="direct { }", *, seats=("a",), aids=NO_AIDS, states=None, **config):
        self.clock = ManualClock()
        self.timer = Timer(self.clock)
        self.channel = KeptReplies()
        self.refused, self.ended = [], []
        self.scheduler = build_scheduler(
            config_of(batching, **config),
            self.clock,
            self.timer,
            None,
            ConditionBell(),
            lambda request, error: self.refused.append((request, error.failure_reason)),
            lambda *ended: self.ended.append(ended),
            aids=aids,
            states=states,
        )
        self.scheduler.expect(seats)

    def enqueue(self, id, flags=0, **options):
        request = make_request(self.channel, correlation_id=id, flags=flags, **options)
        self.scheduler.enqueue(request)
        return request

    def pull(self, seat="a"):
        return self.scheduler.take_batch(seat)

    def run(self, seat="a"):
        """Pull a batch, answer it, and tell what was real in it: (correlation id, START, END), None for padding."""
        batch = self.pull(seat)
        for request in batch:
            self.answer(request)
        return [told(request) for request in batch]

    def answer(self, request):
        if request.settle():
            request.channel.send((Reply(request),))

    def advance(self, **time):
        self.clock.advance(**time)
        self.timer.run_due()

    def error_of(self, request):
        return self.channel.error_of(request)


def control(request, name):
    return request.inputs[name].numpy().ravel()[0]


def told(request):
    """What the model sees of the sequence; None where it is told that there is none."""
    if not control(request, "READY"):
        return None
    return int(control(request, "CORRID")), int(control(request, "START")), int(control(request, "END"))
