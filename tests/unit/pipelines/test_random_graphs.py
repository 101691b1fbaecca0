"""Random graphs, answered in random order: what comes out is what a plain evaluation gives, and nothing is lost."""

import random

import pytest

from charonia.core.errors import BackendError
from tests.unit.pipelines.ensembles import Ensemble, config_of, values_of


class Graph:
    """Steps `s0`, `s1`, … in order; step n makes the tensors `t<n>` and `u<n>` of one or two earlier ones.

    Attributes:
        reads: by step, the tensors that it reads.
        outputs: those of the ensemble.
    """

    def __init__(self, chance):
        count = chance.randint(1, 7)
        tensors, self.reads = ["IN"], []
        for number in range(count):
            self.reads.append(chance.sample(tensors, min(len(tensors), chance.randint(1, 2))))
            tensors += [f"t{number}", f"u{number}"]
        self.outputs = chance.sample(tensors[1:], chance.randint(1, min(4, 2 * count)))

    def config(self, options):
        lines = []
        for number, reads in enumerate(self.reads):
            given = ", ".join(f"{name}>{tensor}" for name, tensor in zip(("IN", "IN1"), reads, strict=False))
            lines.append(f"s{number}: {given} -> OUT>t{number}, MORE>u{number}")
        return config_of("\n".join(lines), outputs=" ".join(self.outputs), options=options)

    def values(self, start, absent):
        """Every tensor: the sum of what the step reads, plus its number, and twice that; without the absent ones."""
        values = {"IN": start}
        for number, reads in enumerate(self.reads):
            total = sum(values.get(tensor, 0) for tensor in reads) + number
            values |= {f"t{number}": total, f"u{number}": 2 * total}
            for tensor in {f"t{number}", f"u{number}"} & absent:
                del values[tensor]
        return values

    def needed(self, outputs):
        """The steps that have to run."""
        waiting, needed = list(outputs), set()
        while waiting:
            tensor = waiting.pop()
            if tensor != "IN" and int(tensor[1:]) not in needed:
                needed.add(int(tensor[1:]))
                waiting += self.reads[int(tensor[1:])]
        return needed


def answer(ensemble, request, absent):
    number = int(request.model_name[1:])
    total = sum(float(each.numpy()[0, 0]) for each in request.inputs.values()) + number
    given = {"OUT": (f"t{number}", total), "MORE": (f"u{number}", 2 * total)}
    kept = {name: value for name, (tensor, value) in given.items() if tensor not in absent}
    asked = {name: value for name, value in kept.items() if name in request.requested_outputs}
    ensemble.reply(request, **(asked or {"NOTHING": 0}))


@pytest.mark.parametrize("options", ["", "max_inflight_requests: 2"])
@pytest.mark.parametrize("seed", range(150))
def test_many_requests_at_once(seed, options):
    chance = random.Random(seed)
    graph = Graph(chance)
    ensemble = Ensemble(graph.config(options))
    tensors = [f"{kind}{number}" for number in range(len(graph.reads)) for kind in "tu"]
    absent = set(chance.sample(tensors, chance.randint(0, len(tensors) // 3)))
    asked = {}
    for number in range(chance.randint(1, 6)):
        outputs = tuple(chance.sample(graph.outputs, chance.randint(1, len(graph.outputs))))
        asked[ensemble.ask(outputs, IN=number, correlation_id=chance.choice([0, 0, 5, "5"]))] = (number, outputs)
    failed, cancelled = set(), set()
    while ensemble.asked:
        request = ensemble.asked.pop(chance.randrange(len(ensemble.asked)))
        outer = request.token[0].run.request
        what = chance.random()
        if what < 0.03:
            failed.add(outer)
            ensemble.asked.append(request)
            ensemble.fail(BackendError("broke"), request)
        else:
            if what > 0.97 and not outer.settled:
                cancelled.add(outer)
                outer.cancel()
            answer(ensemble, request, absent)
    assert sorted(map(id, asked)) == sorted(id(reply.request) for reply in ensemble.channel.replies)
    for request, (start, outputs) in asked.items():
        reply = ensemble.channel.of(request)
        if reply.error is not None:
            assert request in failed | cancelled
            continue
        values = graph.values(start, absent)
        assert values_of(reply) == {name: values[name] for name in outputs if name in values}
    if not failed and not cancelled:
        assert len(ensemble.submitted) == sum(len(graph.needed(outputs)) for _, outputs in asked.values())
    assert ensemble.scheduler._live == set()
    assert ensemble.scheduler._sequences._lanes == {}
    assert ensemble.scheduler.pending_count == 0
