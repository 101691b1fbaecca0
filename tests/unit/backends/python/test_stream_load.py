"""Streams and calls under load while their processes are killed: every request ends, and nothing is left."""

import gc
import os
import random
import threading

import numpy as np
import pytest

from charonia.backends.base import InstanceSpec, ServerFacts
from charonia.core.request import Reply
from charonia.core.tensor import Tensor
from charonia.testing.batch import make_batch

CODE = """
import asyncio, threading

FINAL = pb_utils.TRITONSERVER_RESPONSE_COMPLETE_FINAL

class TritonPythonModel:
    async def execute(self, requests):
        await asyncio.gather(*[self.one(request) for request in requests])

    async def one(self, request):
        x = request.inputs()[0].as_numpy()
        sender = request.get_response_sender()
        for number in range(int(x[0])):
            inner = pb_utils.InferenceRequest(
                model_name="other", requested_output_names=["Y"], inputs=[pb_utils.Tensor("X", x)])
            response = await inner.async_exec()
            if not response.has_error():
                sender.send(pb_utils.InferenceResponse(response.output_tensors()))
        threading.Thread(target=sender.send, args=(None, FINAL)).start()
"""


class EchoingModels:
    """Answers each call at once."""

    def submit(self, request):
        request.settle()
        outputs = [Tensor("Y", t.datatype, t.shape, t.buffer) for t in request.inputs.values()]
        request.channel.send([Reply(request, outputs)])


def test_nothing_is_lost_or_left_when_processes_are_killed(workshop, shared_memory_files):
    rng = random.Random(11)
    shm = shared_memory_files()
    gc.collect()
    fds, threads = len(os.listdir("/proc/self/fd")), threading.active_count()
    workshop.write(CODE)
    context = workshop.context(decoupled=True, settings={"max-deaths": "100"})
    facts = ServerFacts(log=workshop.log, custom_metrics=workshop.metrics, submitter=EchoingModels())
    context = type(context)(
        **{**{name: getattr(context, name) for name in context.__dataclass_fields__}, "server": facts}
    )
    model = workshop.backend.load(context)
    instance = model.create_instance(InstanceSpec("m_0", "KIND_CPU", "cpu", 1))
    batches = []
    for number in range(120):
        size = rng.choice((1, 1, 1, 50_000))
        rows = [{"X": np.full(size, rng.randrange(6), np.float32)} for _ in range(rng.randrange(1, 6))]
        batch = make_batch(*rows)
        batches.append(batch)
        batch.start(instance)
        if rng.random() < 0.2:
            batch.requests[0].cancel()
        if number in (40, 80, 110):
            instance._life.child.kill()
    succeeded = 0
    for batch in batches:
        batch.wait()
        for request, replies in zip(batch.requests, batch.replies, strict=True):
            if replies[-1].error is None:
                succeeded += 1
                assert len(replies) == 1 + int(request.inputs["X"].numpy()[0])
            else:
                assert "SIGKILL" in str(replies[-1].error)
    assert succeeded
    assert len(instance._life.link._open) == 0
    instance.close()
    model.close()
    workshop.backend.close()
    batches.clear()
    del batch, replies, request
    gc.collect()
    assert shared_memory_files() == shm
    assert len(os.listdir("/proc/self/fd")) <= fds
    assert threading.active_count() <= threads


@pytest.mark.parametrize("size", [1, 20_000], ids=["small", "large"])
def test_shared_memory_stays_as_small_as_what_is_under_way(workshop, size):
    code = """
class TritonPythonModel:
    def execute(self, requests):
        for request in requests:
            sender = request.get_response_sender()
            for number in range(50):
                sender.send(pb_utils.InferenceResponse([pb_utils.Tensor("Y", request.inputs()[0].as_numpy() + number)]))
            sender.send(flags=1)
"""
    served = workshop.serve(code, decoupled=True)
    for _ in range(100):
        served.run({"X": np.zeros(size, np.float32)}, {"X": np.zeros(size, np.float32)})
    life = served.instance._life
    assert life.child.inputs.region.size <= 4 * 2**20
    assert life.child.outputs.size <= 32 * 2**20
