import asyncio
from concurrent.futures import Future

import pytest

from charonia.control.health import Health
from charonia.control.metadata import TRITON_VERSION, TensorMetadata
from charonia.control.repository import no_repository
from charonia.core.errors import NotFoundError, UnsupportedError
from charonia.core.overrides import LoadOverrides
from charonia.observe.statistics import BatchStatistics, Duration
from charonia.testing.models import example_directory


class Teller:
    tells_ready = True

    def __init__(self, answer):
        self._answer = answer

    def ask_ready(self):
        answer = Future()
        answer.set_running_or_notify_cancel()
        if self._answer is not None:
            answer.set_result(self._answer)
        return answer


def told(answer):
    return asyncio.run(answer)


def test_health_follows_the_server(handlers, server):
    assert handlers.health.live()
    assert told(handlers.health.ready())
    server.live = server.ready = False
    assert not handlers.health.live()
    assert not told(handlers.health.ready())


def test_a_model_is_ready_while_an_instance_lives(handlers, models):
    assert told(handlers.health.model_ready("id", -1))
    models[0].live_instances = 0
    assert not told(handlers.health.model_ready("id", -1))


@pytest.mark.parametrize(("said", "ready"), [([True], True), ([True, False], False), ([True, None], False)])
def test_models_that_tell_it_themselves_are_asked_each_instance(models, server, said, ready):
    """None: the model does not answer in time."""
    health = Health(server, lambda: example_directory(models), answer_s=0)
    models[0].readiness_tellers = [Teller(each) for each in said]
    assert told(health.model_ready("id", 1)) is ready
    assert told(health.known_and_ready("id", 1)) is ready
    assert told(health.ready()) is ready
    assert told(health.model_ready("addsub", 3))
    server.strict = False
    assert told(health.ready())


def test_a_loading_model_is_not_ready(handlers):
    assert not told(handlers.health.model_ready("late", -1))


def test_an_unknown_model_is_an_error_or_not_ready_as_asked(handlers):
    with pytest.raises(NotFoundError):
        told(handlers.health.model_ready("nope", -1))
    assert not told(handlers.health.known_and_ready("nope", -1))
    assert not told(handlers.health.known_and_ready("addsub", 2))
    assert told(handlers.health.known_and_ready("addsub", 3))


def test_server_metadata_names_the_triton_that_is_followed(handlers, server):
    server.id = "mine"
    metadata = handlers.metadata.server()
    assert (metadata.name, metadata.version) == ("mine", TRITON_VERSION)
    assert {"model_configuration", "statistics", "binary_tensor_data"} <= set(metadata.extensions)


def test_model_metadata_has_the_batch_dimension(handlers):
    metadata = handlers.metadata.model("id", -1)
    assert metadata.inputs == (TensorMetadata("INPUT0", "FP32", (-1, -1)),)
    assert metadata.platform == "python"


def test_model_metadata_names_all_versions_or_the_one_asked_for(handlers):
    assert handlers.metadata.model("addsub", -1).versions == ("1", "3")
    assert handlers.metadata.model("addsub", 1).versions == ("1",)


def test_platform_comes_before_backend(handlers):
    metadata = handlers.metadata.model("addsub", -1)
    assert metadata.platform == "onnxruntime_onnx"
    assert metadata.outputs[1] == TensorMetadata("OUTPUT1", "BYTES", (4,))


def test_statistics_are_read_at_one_moment_and_sorted(handlers, models):
    counted = models[0].statistics
    counted.queue = Duration(2, 300)
    counted.batches = {4: BatchStatistics(), 1: BatchStatistics(Duration(7, 8))}
    (record,) = handlers.statistics.read("id")
    counted.queue.count = 99
    assert record.inference["queue"].count == 2
    assert [batch.batch_size for batch in record.batches] == [1, 4]
    assert record.batches[0].compute_input.ns == 8


def test_statistics_of_one_version_one_model_and_all(handlers):
    def which(*asked):
        return [(record.name, record.version) for record in handlers.statistics.read(*asked)]

    assert which("addsub", 3) == [("addsub", "3")]
    assert which("addsub") == [("addsub", "1"), ("addsub", "3")]
    assert which() == [("addsub", "1"), ("addsub", "3"), ("id", "1")]


@pytest.mark.parametrize(
    ("asked", "phrase"),
    [
        (
            ("nope", -1),
            "^Request for unknown model: 'nope' is not found.*; the requested model 'nope' is not available",
        ),
        (
            ("addsub", 2),
            "'addsub' version 2 is not found.*requested model version is not available for model 'addsub'",
        ),
    ],
)
def test_statistics_of_the_unknown_are_not_found(handlers, asked, phrase):
    with pytest.raises(NotFoundError, match=phrase):
        handlers.statistics.read(*asked)


def test_index_lists_everything_or_what_is_ready(handlers):
    assert [entry.name for entry in handlers.repository.index()] == ["addsub", "addsub", "bad", "id", "late", "shelf"]
    assert [entry.name for entry in handlers.repository.index(ready_only=True)] == ["addsub", "addsub", "id"]


def test_load_and_unload_reach_the_control(handlers, control):
    overrides = LoadOverrides("{}", {"1/model.py": b"x"})
    handlers.repository.load("id", overrides)
    handlers.repository.load("id")
    handlers.repository.unload("id", dependents=True)
    handlers.repository.unload("id")
    assert control.calls == [
        ("load", "id", overrides),
        ("load", "id", LoadOverrides()),
        ("unload", "id", True),
        ("unload", "id", False),
    ]


def test_a_repository_can_not_be_picked():
    no_repository("")
    with pytest.raises(UnsupportedError, match="'repository_name' specification is not supported"):
        no_repository("elsewhere")
