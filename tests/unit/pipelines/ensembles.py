"""An ensemble over steps that the test answers by hand."""

from dataclasses import dataclass, field

import numpy as np

from charonia.config.io import io_specs
from charonia.config.pbtxt import parse_pbtxt
from charonia.config.schema import ModelConfig
from charonia.core.errors import NotFoundError
from charonia.core.model_id import ModelId
from charonia.core.request import InferRequest, Reply
from charonia.core.tensor import Tensor
from charonia.observe.statistics import ModelStatistics
from charonia.pipelines.scheduler import EnsembleScheduler
from charonia.testing.clock import ManualClock
from charonia.testing.log import kept_log
from charonia.testing.requests import KeptReplies


def config_of(steps, *, inputs="IN", outputs="OUT", max_batch_size=8, dims=(1,), options=""):
    """`steps` is written as in 'a: IN>X, Y>Z' (model: input>tensor) '-> OUT>W' (output>tensor), one a line."""
    config = parse_pbtxt(f"ensemble_scheduling {{ {options} }}", "config.pbtxt").config
    config.name, config.platform, config.max_batch_size = "e", "ensemble", max_batch_size
    for name in inputs.split():
        config.input.add(name=name.rstrip("?"), data_type="TYPE_FP32", dims=dims, optional=name.endswith("?"))
    for name in outputs.split():
        config.output.add(name=name, data_type="TYPE_FP32", dims=dims)
    for line in steps.strip().splitlines():
        model, _, maps = line.partition(":")
        given, _, made = maps.partition("->")
        name, _, version = model.strip().partition("/")
        step = config.ensemble_scheduling.step.add(model_name=name, model_version=int(version or -1))
        for field_name, pairs in (("input_map", given), ("output_map", made)):
            for pair in pairs.split(","):
                key, _, value = pair.strip().partition(">")
                getattr(step, field_name)[key] = value
    return config


@dataclass
class StepModel:
    """What an ensemble may know of the model of a step."""

    config: ModelConfig
    decoupled: bool = False
    inputs: tuple = field(default=())

    @classmethod
    def of(cls, name, *, max_batch_size=8, decoupled=False, dims=(1,), names=("IN", "IN1")):
        config = ModelConfig(name=name, max_batch_size=max_batch_size)
        for each in names:
            config.input.add(name=each, data_type="TYPE_FP32", dims=dims)
        return cls(config, decoupled, io_specs(config)[0])


class Models:
    """The models at one moment: any name is there unless `models` has None for it."""

    def __init__(self, **models):
        self._models = models

    def find(self, name, version=-1, /):
        model = self._models.get(name, StepModel.of(name))
        if model is None:
            raise NotFoundError(f"no '{name}'")
        return model


class Ensemble:
    """The scheduler under test; `asked` are the requests to steps that nobody has answered yet, in order."""

    def __init__(self, config, *, log=None, **models):
        self.models = Models(**models)
        self.clock = ManualClock()
        self.statistics = ModelStatistics()
        self.log, self.lines = kept_log()
        self.scheduler = EnsembleScheduler(
            ModelId(config.name), config, self.clock, self, lambda: self.models, self.statistics, log or self.log
        )
        self.channel = KeptReplies()
        self.asked: list[InferRequest] = []
        self.submitted: list[InferRequest] = []  # in the order in which they came
        self.refusal = None

    def submit(self, request):
        """The Submitter of the steps."""
        if self.refusal is not None and (error := self.refusal(request)) is not None:
            request.settle()
            request.channel.send((Reply(request, error=error),))
            return
        self.asked.append(request)
        self.submitted.append(request)

    def submit_all(self, requests):
        assert len({request.model_name for request in requests}) == 1
        for request in requests:
            self.submit(request)

    def ask(self, requested=(), *, channel=None, rows=1, **options):
        """A request with each of its inputs, by name, filled with one value or given as an array; default IN=1."""
        values = {name: options.pop(name) for name in list(options) if name.isupper() or name[-1].isdigit()} or {
            "IN": 1
        }
        tensors = {name: tensor(name, value, rows) for name, value in values.items()}
        request = InferRequest(
            "e", -1, tensors, channel or self.channel, self.clock.now_ns(), requested_outputs=requested, **options
        )
        request.batch_size = rows
        self.scheduler.enqueue(request)
        return request

    def next(self, what=None):
        """The oldest request that waits (for the model of this name), or this one; the test answers it."""
        request = next(each for each in self.asked if what in (None, each.model_name, each))
        self.asked.remove(request)
        return request

    def answer(self, model=None, *, final=True, parameters=None, rows=1, **outputs):
        """Answer the oldest request (to `model`) with these outputs, by default its first input as OUT."""
        request = self.next(model)
        self.reply(request, final=final, parameters=parameters, rows=rows, **outputs)
        return request

    def reply(self, request, *, final=True, parameters=None, rows=1, **outputs):
        if not outputs:
            outputs = {"OUT": next(iter(request.inputs.values())).numpy()}
        tensors = [tensor(name, value, rows) for name, value in outputs.items()]
        if final:
            request.settle()
        request.channel.send((Reply(request, tensors, None, parameters or {}, final),))

    def finish(self, request):
        """The bare end of a decoupled step's responses."""
        request.settle()
        request.channel.send((Reply(request, has_response=False),))

    def fail(self, error, what=None):
        request = self.next(what)
        request.settle()
        request.channel.send((Reply(request, error=error),))
        return request

    @property
    def waiting(self):
        """The models that are asked, in order."""
        return [request.model_name for request in self.asked]

    def outputs(self, request):
        """The only reply to `request`, as numbers by name."""
        return values_of(self.channel.of(request))

    def stream(self, request):
        """What every reply to `request` says: numbers, "end" for a bare end, and the final one with "!"."""
        told = []
        for reply in self.channel.replies:
            if reply.request is request:
                what = reply.error or (sorted(values_of(reply).values()) if reply.has_response else "end")
                told.append(f"{what}{'!' if reply.final else ''}")
        return told


def tensor(name, value, rows=1):
    if isinstance(value, Tensor):
        return value
    array = np.asarray(value, np.float32)
    return Tensor.from_numpy(name, array if array.ndim else np.full((rows, 1), array, np.float32), owned=True)


def values_of(reply):
    assert reply.error is None, reply.error
    return {each.name: float(each.numpy().ravel()[0]) for each in reply.outputs}
