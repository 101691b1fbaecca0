"""The way in: every outcome arrives at the request's channel, and nothing is raised at the thread that submits."""

from charonia.core.errors import InternalError, NotFoundError, UnsupportedError
from charonia.core.model_id import ModelId
from charonia.engine.engine import Engine
from charonia.engine.model import RetiredError
from charonia.testing.requests import KeptReplies, make_request


class Version:
    name = id = ModelId("m")

    def __init__(self, decoupled=False, error=None):
        self.decoupled = decoupled
        self.error = error
        self.submitted = []

    def submit(self, request):
        if self.error is not None:
            raise self.error
        self.submitted.append(request)


class Models:
    def __init__(self, version):
        self.version = version

    def find(self, name, version):
        if self.version is None:
            raise NotFoundError(f"no '{name}'")
        return self.version


def outcome(version):
    channel = KeptReplies()
    request = make_request(channel)
    Engine(Models(version)).submit(request)
    return channel.of(request).error


def test_a_request_goes_to_its_model():
    version = Version()
    request = make_request(KeptReplies())
    Engine(Models(version)).submit(request)
    assert version.submitted == [request]
    assert not request.settled


def test_an_unknown_model_is_told():
    assert isinstance(outcome(None), NotFoundError)


def test_a_decoupled_model_is_refused():
    assert isinstance(outcome(Version(decoupled=True)), UnsupportedError)


def test_a_bug_fails_its_request_and_nothing_else():
    error = outcome(Version(error=ZeroDivisionError("a bug of ours")))
    assert isinstance(error, InternalError)
    assert "model 'm'" in str(error)
    assert "a bug of ours" in str(error)


def test_a_version_that_is_replaced_just_now_costs_no_request():
    new = Version()
    models = Models(None)
    retired = Version(error=RetiredError("version 1 is being unloaded"))
    found = [retired, new]
    models.find = lambda name, version: found.pop(0)
    request = make_request(KeptReplies())
    Engine(models).submit(request)
    assert new.submitted == [request]


def test_a_version_that_is_unloaded_without_another_is_told():
    error = outcome(Version(error=RetiredError("version 1 is being unloaded")))
    assert isinstance(error, RetiredError)
