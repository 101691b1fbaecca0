"""Chains with decoupled steps, answered in random order: every response arrives once, in order, and the end is last."""

import random
from collections import Counter

import pytest

from tests.unit.pipelines.ensembles import Ensemble, StepModel, config_of


class Open:
    """A request to a decoupled step that still has `left` responses to give."""

    def __init__(self, request, count):
        self.request = request
        self.start = float(request.inputs["IN"].numpy()[0, 0])
        self.left = list(range(count))

    def go(self, ensemble, *, end_with_last):
        """One response, or the bare end. True when it is over."""
        if not self.left:
            ensemble.finish(self.request)
            return True
        number = self.left.pop(0)
        final = end_with_last and not self.left
        ensemble.reply(self.request, final=final, OUT=self.start * 10 + number)
        return final


def expected(kinds, counts, start):
    """The values that come out: a decoupled step turns x into 10x, 10x + 1, …; a plain one leaves it."""
    values = [start]
    for kind in kinds:
        if kind == "d":
            values = [value * 10 + number for value in values for number in range(counts[value])]
    return values


@pytest.mark.parametrize("limit", [0, 1, 3])
@pytest.mark.parametrize("seed", range(100))
def test_whatever_is_faster(seed, limit):
    chance = random.Random(seed)
    kinds = [chance.choice("dpp") for _ in range(chance.randint(1, 4))] + ["d"]
    chance.shuffle(kinds)
    tensors = ["IN", *(f"t{number}" for number in range(1, len(kinds))), "OUT"]
    steps = "\n".join(
        f"{kind}{number}: IN>{tensors[number]} -> OUT>{tensors[number + 1]}" for number, kind in enumerate(kinds)
    )
    models = {f"d{number}": StepModel.of(f"d{number}", decoupled=True) for number in range(len(kinds))}
    options = f"max_inflight_requests: {limit}" if limit else ""
    ensemble = Ensemble(config_of(steps, options=options), **models)
    counts = Counter()
    asked = {ensemble.ask(IN=start, correlation_id=chance.choice([0, 7])): start for start in (1, 2, 3)}
    streams = []
    while ensemble.asked or streams:
        if ensemble.asked and (not streams or chance.random() < 0.5):
            request = ensemble.asked.pop(chance.randrange(len(ensemble.asked)))
            if request.model_name.startswith("p"):
                ensemble.reply(request)
                continue
            streams.append(Open(request, chance.randint(0, 3)))
            counts[streams[-1].start] = len(streams[-1].left)
        stream = chance.choice(streams)
        if stream.go(ensemble, end_with_last=chance.random() < 0.3):
            streams.remove(stream)
    for request, start in asked.items():
        told = ensemble.stream(request)
        came = [float(each.strip("![]")) for each in told if not each.startswith("end")]
        assert came == expected(kinds, counts, float(start))
        assert [each.endswith("!") for each in told] == [False] * (len(told) - 1) + [True]
    assert ensemble.scheduler._live == set()
    assert ensemble.scheduler.pending_count == 0
