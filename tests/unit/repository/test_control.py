"""Loading and unloading by request: what changes, what is left alone, and what is said when it fails."""

import json

import numpy as np
import pytest

from charonia.config.json_form import config_to_json_text
from charonia.core.errors import InvalidArgumentError, NotFoundError, UnavailableError
from charonia.core.overrides import NO_OVERRIDES, LoadOverrides
from tests.unit.repository.served import JSON, Repository, Served

BROKEN = "no_such_field: 1"


@pytest.fixture
def repository(tmp_path):
    made = Repository(tmp_path / "models")
    made.add("m", 1)
    made.add("other", 1)
    return made


@pytest.fixture
def overrides(tmp_path, monkeypatch):
    """Where the files of requests are written."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    return tmp_path / "temporary"


@pytest.fixture
def serve(repository, overrides):
    made = []

    def start(*more, mode="explicit", **options):
        made.append(Served(repository, *more, mode=mode, **options))
        return made[-1]

    yield start
    for each in made:
        each.close()


def load(served, name="m", overrides=NO_OVERRIDES):
    served.control.load(name, overrides)


def files_in(folder):
    return sorted(each.name for each in folder.rglob("*") if each.is_file() and each.name != ".in-use")


def test_a_model_is_loaded_and_unloaded_by_request(serve):
    served = serve()
    assert served.index() == [("m", None, None), ("other", None, None)]
    assert served.server.ready
    load(served)
    assert served.index() == [("m", 1, "READY"), ("other", None, None)]
    served.control.unload("m", False)
    served.settle()
    assert served.index("m") == [(1, "UNAVAILABLE")]
    assert served.reason("m") == "unloaded"
    load(served)
    assert served.index("m") == [(1, "READY")]


def test_what_has_not_changed_is_not_loaded_again(serve):
    served = serve()
    load(served)
    before = served.version("m")
    load(served)
    assert served.version("m") is before


def test_a_new_folder_is_found_and_one_that_is_gone_is_not_there(serve, repository):
    served = serve()
    repository.add("new", 1)
    load(served, "new")
    repository.remove("other")
    load(served)
    assert served.index() == [("m", 1, "READY"), ("new", 1, "READY")]
    repository.remove("new")
    with pytest.raises(NotFoundError, match=r"failed to load 'new'.*not found in any model repository; there are: m"):
        load(served, "new")
    assert served.index("new") == [(1, "READY")]  # what was loaded serves on
    served.control.unload("new", False)
    assert served.index() == [("m", 1, "READY")]


def test_a_changed_version_is_loaded_anew_and_the_others_are_not_touched(serve, repository):
    repository.add("m", 1, 2, more="version_policy { all {} }")
    served = serve()
    load(served)
    one, two = served.version("m", 1), served.version("m", 2)
    repository.write("m/2/model", "changed")
    repository.add("m", 3, more="version_policy { all {} }")
    load(served)
    assert served.version("m", 1) is one
    assert served.version("m", 2) is not two
    assert served.index("m") == [(1, "READY"), (2, "READY"), (3, "READY")]


def test_a_version_whose_folder_is_gone_is_unloaded(serve, repository):
    repository.add("m", 1, 2, more="version_policy { all {} }")
    served = serve()
    load(served)
    two = served.version("m", 2)
    repository.remove("m/1")
    load(served)
    served.settle()
    assert served.index("m") == [(1, "UNAVAILABLE"), (2, "READY")]
    assert served.version("m", 2) is two


def test_another_version_policy_loads_and_unloads_versions_and_touches_no_other(serve, repository):
    repository.add("m", 1, 2, 3, more="version_policy { specific { versions: [ 1, 2 ] } }")
    served = serve()
    load(served)
    two = served.version("m", 2)
    repository.add("m", more="version_policy { specific { versions: [ 2, 3 ] } }")
    load(served)
    served.settle()
    assert served.index("m") == [(1, "UNAVAILABLE"), (2, "READY"), (3, "READY")]
    assert served.version("m", 2) is two
    assert list(two.config.version_policy.specific.versions) == [2, 3]


def test_cores_are_shared_by_what_serves_and_not_by_what_failed(serve, repository):
    served = serve()
    repository.add("m", 1, more="instance_group { kind: KIND_CPU count: 2 }")
    load(served)
    no_file = 'inputs { key: "INPUT0" value { data_type: TYPE_FP32 dims: [ 1 ] input_data_file: "gone" } }'
    warm_up = f'model_warmup {{ name: "w" batch_size: 1 {no_file} }}'
    repository.add("m", 1, more=f"instance_group {{ kind: KIND_CPU count: 3 }} {warm_up}")
    with pytest.raises(InvalidArgumentError, match="gone"):
        load(served)
    assert served.server._loader._instances == {"m": 2}
    served.control.unload("m", False)
    assert served.server._loader._instances == {}


def test_another_number_of_instances_keeps_those_that_can_stay(serve, repository):
    served = serve()
    load(served)
    version = served.version("m")
    (first,) = version.instances
    for count in (3, 2, 1):
        repository.add("m", more=f"instance_group {{ count: {count} kind: KIND_CPU }}")
        load(served)
        assert served.version("m") is version
        assert len(version.instances) == version.live_instances == count
        assert version.config.instance_group[0].count == count
        assert first in version.instances


def test_a_changed_setting_loads_every_version_anew(serve, repository):
    served = serve()
    load(served)
    before = served.version("m")
    repository.add("m", batch=8)
    load(served)
    assert served.version("m") is not before
    assert served.version("m").config.max_batch_size == 8


def test_requests_are_answered_after_each_change(serve, repository):
    served = serve()
    for batch, count in ((4, 1), (8, 1), (8, 3), (8, 2)):
        repository.add("m", batch=batch, more=f"instance_group {{ count: {count} kind: KIND_CPU }}")
        load(served)
        assert answer_of(served) == [1.0, 2.0]


def answer_of(served):
    from charonia.core.tensor import Tensor

    sent = Tensor.from_numpy("INPUT0", np.array([[1, 2]], np.float32))
    return served.server.client.submit("m", [sent]).result(20).outputs["OUTPUT0"].numpy()[0].tolist()


def test_a_failed_load_says_why_each_time_and_keeps_what_served(serve, repository):
    served = serve()
    load(served)
    before = served.version("m")
    repository.add("m", more=BROKEN)
    for _ in range(2):
        with pytest.raises(InvalidArgumentError, match=r"load failed for model 'm': .*no_such_field"):
            load(served)
    assert served.version("m") is before
    assert served.index("m") == [(1, "READY")]
    assert served.server.ready
    repository.add("m")
    load(served)
    assert served.version("m") is before


def test_a_model_that_fails_keeps_the_server_from_being_ready_until_it_is_unloaded(serve, repository):
    served = serve()
    repository.add("m", more='parameters { key: "execute_delay_ms" value { string_value: "soon" } }')
    for _ in range(2):
        with pytest.raises(
            InvalidArgumentError, match="load failed for model 'm': version 1 is at UNAVAILABLE state: "
        ):
            load(served)
    assert not served.server.ready
    assert "whole number" in served.reason("m")
    served.control.unload("m", False)
    assert served.server.ready


@pytest.mark.parametrize("name", ["", "a/b", "..", "a\nb"])
def test_a_name_that_no_folder_can_have(serve, name):
    with pytest.raises(InvalidArgumentError, match="invalid model name"):
        load(serve(), name)


def test_to_unload_what_nobody_knows_is_no_error(serve):
    served = serve()
    served.control.unload("nope", False)
    served.control.unload("m", True)
    assert served.index() == [("m", None, None), ("other", None, None)]


def test_a_name_in_two_repositories(serve, tmp_path):
    second = Repository(tmp_path / "second")
    served = serve(second)
    load(served)
    before = served.version("m")
    second.add("m", 1)
    second.add("other", 1)
    with pytest.raises(InvalidArgumentError, match="model appears in two or more repositories"):
        load(served)
    assert served.version("m") is before
    assert served.index("other") == [(None, "UNAVAILABLE")]
    assert served.reason("other").startswith("model appears in two or more repositories")
    second.remove("other")
    load(served, "other")
    assert served.index("other") == [(1, "READY")]


def test_names_with_spaces_and_links_are_names_as_others(serve, repository, tmp_path):
    elsewhere = Repository(tmp_path / "elsewhere")
    elsewhere.add("real", 7)
    (repository.path / "模型 eins").symlink_to(elsewhere.path / "real")
    served = serve()
    load(served, "模型 eins")
    assert served.index("模型 eins") == [(7, "READY")]


@pytest.mark.parametrize("mode", ["none", "poll"])
@pytest.mark.parametrize("action", ["load", "unload"])
def test_other_modes_refuse(serve, mode, action):
    served = serve(mode=mode)
    with pytest.raises(UnavailableError, match="explicit model load / unload is not allowed if polling is enabled"):
        served.control.load("m", NO_OVERRIDES) if action == "load" else served.control.unload("m", False)
    assert served.index("m") == [(1, "READY")]


def test_after_the_stop_has_begun_nothing_is_loaded(serve):
    served = serve()
    served.server.begin_stop()
    with pytest.raises(UnavailableError, match="stopping"):
        load(served)


# Overrides


def test_a_configuration_of_the_request_goes_before_the_file(serve):
    served = serve()
    load(served, overrides=LoadOverrides(JSON % 8))
    assert served.version("m").config.max_batch_size == 8


def test_a_plain_load_drops_an_override_only_when_files_have_changed(serve, repository):
    served = serve()
    load(served, overrides=LoadOverrides(JSON % 8))
    before = served.version("m")
    load(served)
    assert served.version("m") is before
    repository.write("m/1/model", "changed")
    load(served)
    assert served.version("m").config.max_batch_size == 4


def test_the_completed_configuration_with_other_instances_sent_back_loads_nothing_anew(serve):
    served = serve()
    load(served)
    before = served.version("m")
    config = json.loads(config_to_json_text(before.config))
    config["instance_group"][0]["count"] += 1
    load(served, overrides=LoadOverrides(json.dumps(config)))
    assert served.version("m") is before
    assert len(before.instances) == 2


@pytest.mark.parametrize(
    "text", ["{bad", '{"foo": 1}', "[]", '{"backend": "nope"}', '{"name": "x", "backend": "identity"}']
)
def test_a_wrong_override_is_told_and_changes_nothing(serve, text):
    served = serve()
    load(served)
    before = served.version("m")
    # Clients look for either beginning.
    with pytest.raises(InvalidArgumentError, match="load failed for model 'm': failed to load it with the config"):
        load(served, overrides=LoadOverrides(text))
    assert served.version("m") is before


def test_the_files_of_a_request_are_the_model_while_it_is_loaded(serve, overrides):
    served = serve()
    load(served, "made up", LoadOverrides(JSON % 2, {"5/model": b"x"}))
    assert served.index("made up") == [(5, "READY")]
    assert files_in(overrides) == ["model"]
    with pytest.raises(NotFoundError, match="failed to load 'made up'"):
        load(served, "made up")
    served.control.unload("made up", False)
    served.settle()
    assert files_in(overrides) == []
    assert served.index() == [("m", None, None), ("other", None, None)]


def test_a_plain_load_takes_the_repository_again_after_files_of_a_request(serve, overrides):
    served = serve()
    load(served)
    load(served, overrides=LoadOverrides(JSON % 2, {"5/model": b"x"}))
    served.settle()
    assert served.index("m") == [(1, "UNAVAILABLE"), (5, "READY")]
    load(served)
    served.settle()
    assert served.index("m") == [(1, "READY"), (5, "UNAVAILABLE")]
    assert files_in(overrides) == []


@pytest.mark.parametrize(
    ("config", "files", "message"),
    [
        (None, {"1/model": b""}, "'config' must be specified for model file override"),
        (JSON % 2, {"../model": b""}, "must stay within model directory"),
        (JSON % 2, {"model": b""}, "at least one version must be available"),
        ("{bad", {"1/model": b""}, "config override"),
        ('{"backend": "nope"}', {"1/model": b""}, "nope"),
    ],
)
def test_files_that_can_not_be_loaded_leave_nothing_behind(serve, overrides, config, files, message):
    served = serve()
    load(served)
    before = served.version("m")
    with pytest.raises(InvalidArgumentError, match=message):
        load(served, overrides=LoadOverrides(config, files))
    assert served.version("m") is before
    assert files_in(overrides) == []


def test_the_stop_removes_the_files_of_requests(serve, overrides):
    served = serve()
    load(served, overrides=LoadOverrides(JSON % 2, {"5/model": b"x"}))
    served.close()
    assert list(overrides.iterdir()) == []
