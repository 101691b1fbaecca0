"""Outputs on their way into regions: what is written, what goes on to the wire, and when the claims are given back."""

import numpy as np
import pytest

from charonia.core.errors import BackendError, InvalidArgumentError
from charonia.core.request import Reply
from charonia.core.tensor import Tensor
from charonia.core.unread import UnreadBuffer
from charonia.frontend.region_channel import RegionChannel
from charonia.frontend.regions import Place, RegionTensors
from charonia.memory import segment
from charonia.memory.region import SYSTEM
from charonia.memory.regions import Regions
from charonia.testing.log import kept_log
from charonia.testing.requests import KeptReplies, make_request


class Kept(KeptReplies):
    """As the wire sees replies; and whether the region was free then."""

    def __init__(self, regions):
        super().__init__()
        self._regions = regions
        self.users = []

    def send(self, replies):
        self.users += [self._regions.system("r")[0].users for _ in replies]
        self.replies += replies


@pytest.fixture
def regions(tmp_path, monkeypatch):
    monkeypatch.setattr(segment, "FOLDER", str(tmp_path))
    (tmp_path / "k").write_bytes(bytes(64))
    regions = Regions(kept_log()[0], allowed=True)
    regions.register_system("r", "k", 0, 64)
    return regions


@pytest.fixture
def content(tmp_path):
    return lambda: (tmp_path / "k").read_bytes()


@pytest.fixture
def tensors(regions):
    found = RegionTensors(regions)
    found.outputs["X"] = found.claim("X", {"shared_memory_region": "r", "shared_memory_byte_size": 8})
    return found


@pytest.fixture
def kept(regions):
    return Kept(regions)


@pytest.fixture
def channel(kept, tensors):
    return RegionChannel(kept, tensors)


def tensor(name, *values):
    return Tensor.from_numpy(name, np.array(values, np.int32))


def test_an_output_goes_into_its_region_and_the_others_go_on(channel, kept, content):
    request = make_request(kept)
    other = tensor("Y", 3)
    channel.send((Reply(request, [tensor("X", 1, 2), other], parameters={"p": 1}),))
    (reply,) = kept.replies
    placed, passed = reply.outputs
    assert (placed.name, placed.datatype, placed.shape, placed.buffer.nbytes) == ("X", "INT32", (2,), 8)
    assert placed.buffer.host() is None
    assert passed is other
    assert reply.parameters == {"p": 1}
    assert content()[:12] == np.array([1, 2, 0], np.int32).tobytes()
    assert kept.users == [0], "who has the answer finds the region free"


def test_each_response_is_written_over_the_one_before(channel, kept, content):
    request = make_request(kept)
    for number in (1, 2):
        channel.send((Reply(request, [tensor("X", number)], final=False),))
        assert content()[:4] == np.array([number], np.int32).tobytes()
    channel.send((Reply(request, has_response=False),))
    assert kept.users == [1, 1, 0]


def test_errors_pass_and_end_the_claims(channel, kept):
    request = make_request(kept)
    error = BackendError("broken")
    channel.send((Reply(request, error=error),))
    assert kept.of(request).error is error
    assert kept.users == [0]


def test_an_output_that_does_not_fit_leaves_everything_as_it_was(regions, kept, content):
    tensors = RegionTensors(regions)
    for name, nbytes in (("X", 8), ("Y", 7)):
        tensors.outputs[name] = Place(regions.claim("r"), 8, nbytes)
    request = make_request(kept)
    RegionChannel(kept, tensors).send((Reply(request, [tensor("X", 1, 2), tensor("Y", 1, 2)]),))
    assert "output 'Y' (7 bytes) should be at least 8 bytes" in kept.error_of(request)
    assert isinstance(kept.of(request).error, InvalidArgumentError)
    assert content() == bytes(64)


def test_a_response_that_fails_does_not_end_a_stream(channel, kept, content):
    request = make_request(kept)
    channel.send((Reply(request, [tensor("X", 1, 2, 3)], final=False),))
    channel.send((Reply(request, [tensor("X", 4)]),))
    assert [reply.final for reply in kept.replies] == [False, True]
    assert kept.replies[0].error is not None
    assert content()[:4] == np.array([4], np.int32).tobytes()


def test_an_input_that_could_not_be_read_fails_its_request(channel, tensors, kept, content):
    request = make_request(kept)
    tensors.faults.tell("region 'r' is shorter")
    channel.send((Reply(request, [tensor("X", 1)]),))
    assert "an input for model 'm' could not be read: region 'r' is shorter" in kept.error_of(request)
    assert content() == bytes(64)


def test_an_input_that_comes_back_is_read_before_anything_is_answered(channel, tensors, kept):
    request = make_request(kept)

    def fill(target):
        target[:] = 0
        tensors.faults.tell("gone")

    channel.send((Reply(request, [Tensor("Y", "UINT8", (4,), UnreadBuffer(fill, 4))]),))
    assert "gone" in kept.error_of(request)


def test_a_fault_of_ours_fails_one_reply(channel, kept, monkeypatch, regions):
    request = make_request(kept)
    monkeypatch.setattr(regions.system("r")[0], "write", lambda *_: 1 / 0)
    channel.send((Reply(request, [tensor("X", 1)]),))
    assert "can't be written to shared memory: ZeroDivisionError" in kept.error_of(request)


def test_claims_are_given_back_once(channel, kept, regions, tensors):
    regions.claim("r")
    tensors.release()
    tensors.release()
    assert regions.system("r")[0].users == 1
    regions.unregister(SYSTEM)
