"""A server over repositories in a store: what is downloaded, what stays while the store is away, what is removed."""

import os
import threading

import pytest

from charonia.core.errors import CharoniaError, InvalidArgumentError, UnavailableError
from charonia.core.overrides import LoadOverrides
from charonia.options import ServerOptions
from charonia.repository import all_repositories
from charonia.repository.all_repositories import AllRepositories, CloudParts
from charonia.repository.remote.retries import SteadyStore
from charonia.testing.clock import ManualClock
from charonia.testing.log import kept_log
from charonia.tools.check.run import check
from tests.unit.repository.remote.fake_store import FakeStore
from tests.unit.repository.served import CONFIG, JSON, Polling, Repository, Served

URL = "s3://host:9000/bucket/models"
AWAY = ConnectionError("Could not connect to the endpoint")
ENSEMBLE = """
platform: "ensemble"
max_batch_size: 4
input { name: "INPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
output { name: "OUTPUT0" data_type: TYPE_FP32 dims: [ -1 ] }
ensemble_scheduling { step {
  model_name: "m" input_map { key: "INPUT0" value: "INPUT0" } output_map { key: "OUTPUT0" value: "OUTPUT0" } } }
"""


class Bucket:
    """Model folders in a store, as `served.Repository` has them in the file system."""

    def __init__(self, store):
        self.store = store
        self.path = URL

    def add(self, name, *versions, more=""):
        for version in versions:
            self.write(f"{name}/{version}/model", f"model {version}")
        self.write(f"{name}/config.pbtxt", CONFIG % 4 + more)

    def write(self, path, text):
        self.store.put(f"bucket/models/{path}", text.encode())

    def remove(self, name):
        for key in [key for key in self.store.content if key.startswith(f"bucket/models/{name}/")]:
            del self.store.content[key]

    def fetched(self):
        """What was fetched since the last time, by path in the repository."""
        found, self.store.fetched[:] = [key.removeprefix("bucket/models/") for key in self.store.fetched], []
        return sorted(found)


@pytest.fixture
def bucket(monkeypatch, tmp_path):
    store = FakeStore()
    monkeypatch.setattr(all_repositories, "check_installed", lambda kind: None)
    monkeypatch.setattr(all_repositories, "open_store", lambda address, credentials: store)
    monkeypatch.setattr(SteadyStore, "_may_try_again", lambda self, wait_s: True)
    monkeypatch.setenv("TRITON_AWS_MOUNT_DIRECTORY", str(tmp_path / "mount"))
    (tmp_path / "mount").mkdir()
    return Bucket(store)


@pytest.fixture
def serve():
    made = []

    def start(*repositories, mode="explicit", **options):
        made.append(Served(*repositories, mode=mode, **options))
        return made[-1]

    yield start
    for each in made:
        each.close()


@pytest.fixture
def local(tmp_path):
    """The files that are here, by path in the model's folder; config.pbtxt left out."""

    def files():
        found = (path for path in (tmp_path / "mount").rglob("*") if path.is_file())
        return sorted(
            "/".join(path.relative_to(tmp_path / "mount").parts[2:])
            for path in found
            if path.suffix != ".pbtxt" and path.name != ".in-use"
        )

    return files


def test_only_the_versions_that_are_served_are_downloaded_and_removed_when_unloaded(bucket, serve, local):
    bucket.add("m", 1, 2, 3)
    bucket.write("m/labels.txt", "a")
    bucket.add("other", 1)
    served = serve(bucket, load_model=["m"])
    assert served.report.complete
    assert local() == ["m/3/model", "m/labels.txt"]
    assert bucket.fetched() == ["m/3/model", "m/config.pbtxt", "m/labels.txt"]
    served.control.unload("m", False)
    served.settle()
    assert local() == []
    assert [name for name, *_ in served.index()] == ["m", "other"]


def test_the_folder_is_of_this_user_alone_and_gone_after_the_stop(bucket, serve, tmp_path):
    bucket.add("m", 1)
    served = serve(bucket, mode="none")
    (root,) = (tmp_path / "mount").iterdir()
    assert root.stat().st_mode & 0o777 == 0o700
    served.close()
    assert list((tmp_path / "mount").iterdir()) == []


def test_the_start_lists_once_however_many_models_there_are(bucket, serve):
    for number in range(5):
        bucket.add(f"m{number}", 1)
    serve(bucket, load_model=["m0"])
    assert bucket.store.listed.count("bucket/models") == 1


def test_a_failed_load_leaves_nothing_and_tells_the_address(bucket, serve, local):
    bucket.add("m", 1)
    bucket.write("m/config.pbtxt", CONFIG % 4 + 'model_warmup { name: "w" batch_size: 1 inputs { key: "X" value {} } }')
    bucket.add("n", 1, more="no_such_field: 1")
    served = serve(bucket, mode="none")
    assert local() == []
    assert f"{URL}/n/config.pbtxt:6" in served.reason("n")
    assert "/mount/" not in served.reason("m") + served.reason("n") + served.lines.text


@pytest.mark.parametrize("url", [URL, "s3://http://host:9000/bucket/models/", "as://account/bucket/models"])
def test_an_ensemble_without_a_version_needs_an_object_that_stands_for_the_folder(bucket, serve, monkeypatch, url):
    """The advice is what a store can do, at the address as it was given."""
    monkeypatch.setenv("TRITON_AZURE_MOUNT_DIRECTORY", os.environ["TRITON_AWS_MOUNT_DIRECTORY"])
    bucket.path = url
    bucket.add("m")
    bucket.write("ens/config.pbtxt", ENSEMBLE)
    served = serve(bucket, mode="none")
    folder = f"{url.rstrip('/')}/ens/1/"
    kind = "without content and the metadata hdi_isfolder=true" if url.startswith("as") else "without content"
    assert f"make an object {kind} whose name ends with a slash: '{folder}'" in served.reason("ens")
    assert f"upload the model file to '{url.rstrip('/')}/m/1/'" in served.reason("m")
    bucket.write("ens/1/", "")
    bucket.write("m/1/model", "model")
    assert serve(bucket, mode="none").report.complete


def test_a_new_version_is_loaded_beside_the_old_one(bucket, serve, local):
    bucket.add("m", 1, more="version_policy { all {} }")
    polling = Polling(served := serve(bucket, mode="poll"))
    before = served.version("m", 1)
    bucket.fetched()
    bucket.write("m/2/model", "model 2")
    polling.look(1)
    assert bucket.fetched() == []
    polling.look(1)
    assert served.index("m") == [(1, "READY"), (2, "READY")]
    assert served.version("m", 1) is before
    assert "m/1/model" not in bucket.fetched()
    bucket.write("m/1/model", "changed")
    polling.look()
    assert served.version("m", 1) is not before
    bucket.store.put("bucket/models/readme.txt", b"")
    bucket.remove("m")
    polling.look()
    assert local() == []


def test_polling_without_a_change_downloads_nothing(bucket, serve):
    bucket.add("m", 1)
    polling = Polling(serve(bucket, mode="poll"))
    bucket.fetched()
    bucket.store.listed.clear()
    polling.look(3)
    assert bucket.fetched() == []
    assert bucket.store.listed == ["bucket/models"] * 3


def test_a_store_that_is_away_for_a_while_unloads_nothing(bucket, serve):
    bucket.add("m", 1)
    polling = Polling(served := serve(bucket, mode="poll"))
    bucket.store.faults = [AWAY] * 12
    polling.look()
    assert served.index("m") == [(1, "READY")]
    assert "can't be looked at" in served.lines.text
    bucket.store.faults.clear()
    bucket.write("m/2/model", "model 2")
    polling.look()
    assert (2, "READY") in served.index("m")


def test_a_start_without_the_store_says_what_was_tried(bucket):
    bucket.add("m", 1)
    bucket.store.faults = [AWAY] * 99
    with pytest.raises(UnavailableError, match=r"model repository .* can't be read: .* at host:9000 .* tried 6 times"):
        Served(bucket, mode="none")


def test_a_bucket_that_is_not_there(bucket):
    with pytest.raises(CharoniaError, match="does not exist"):
        Served(bucket, mode="none")


def test_a_load_while_the_store_is_away_is_refused_and_an_unload_is_not(bucket, serve):
    bucket.add("m", 1)
    served = serve(bucket, load_model=["m"])
    bucket.store.faults = [AWAY] * 6
    with pytest.raises(CharoniaError, match="can't be read"):
        served.control.load("m", LoadOverrides())
    assert served.index("m") == [(1, "READY")]
    bucket.store.faults = [AWAY] * 6
    served.control.unload("m", False)
    served.settle()
    assert served.index("m") == [(1, "UNAVAILABLE")]


def test_a_load_lists_that_model_and_the_names_of_the_others(bucket, serve):
    bucket.add("m", 1)
    bucket.add("other", 1)
    served = serve(bucket)
    bucket.store.listed.clear()
    served.control.load("m", LoadOverrides())
    assert "bucket/models" not in bucket.store.listed
    assert "bucket/models/other" not in bucket.store.listed


def test_loads_by_request_with_a_configuration_or_with_files(bucket, serve, local):
    bucket.add("m", 1)
    served = serve(bucket)
    served.control.load("m", LoadOverrides(JSON % 7))
    assert served.version("m").config.max_batch_size == 7
    assert local() == ["m/1/model"]
    served.control.load("m", LoadOverrides(JSON % 5, {"1/model": b""}))
    served.settle()
    assert local() == []
    served.control.load("m", LoadOverrides())
    assert served.version("m").config.max_batch_size == 4


def test_an_update_of_the_instances_needs_no_load(bucket, serve):
    bucket.add("m", 1)
    served = serve(bucket, load_model=["m"])
    before = served.version("m")
    bucket.add("m", more="instance_group { count: 3 kind: KIND_CPU }")
    served.control.load("m", LoadOverrides())
    assert served.version("m") is before
    assert len(before.instances) == 3


def test_an_ensemble_with_a_folder_that_is_only_marked(bucket, serve, local):
    bucket.add("m", 1)
    bucket.write("ens/config.pbtxt", ENSEMBLE)
    bucket.store.put("bucket/models/ens/1/", b"")
    served = serve(bucket, load_model=["ens"])
    assert served.index() == [("ens", 1, "READY"), ("m", 1, "READY")]
    before = served.version("ens")
    served.control.load("ens", LoadOverrides())
    assert served.version("ens") is before
    bucket.write("m/1/model", "changed")
    served.control.load("m", LoadOverrides())
    assert served.index() == [("ens", 1, "READY"), ("m", 1, "READY")]
    served.control.unload("m", False)
    served.control.unload("ens", False)
    served.settle()
    assert local() == []


def test_repositories_of_several_kinds_together(bucket, serve, tmp_path):
    bucket.add("far", 1)
    here = Repository(tmp_path / "models")
    here.add("near", 1)
    served = serve(bucket, here, mode="none")
    assert served.index() == [("far", 1, "READY"), ("near", 1, "READY")]
    here.add("far", 1)
    again = serve(bucket, here)
    again.control.load("near", LoadOverrides())
    with pytest.raises(InvalidArgumentError, match="two or more repositories"):
        again.control.load("far", LoadOverrides())


def test_objects_whose_names_lead_elsewhere_are_not_written(bucket, serve, local, tmp_path):
    bucket.add("m", 1)
    bucket.write("m/../../../../escaped", "x")
    bucket.write("m/1/../../../escaped", "x")
    served = serve(bucket, mode="none")
    assert served.report.complete
    assert local() == ["m/1/model"]
    assert not list(tmp_path.rglob("escaped"))
    assert "ignored" in served.lines.text


def test_no_secret_is_written_anywhere(bucket, monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAEXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wJalrSECRET")
    bucket.store.faults = [PermissionError("signature of wJalrSECRET")] * 9
    with pytest.raises(CharoniaError, match="Check account credentials") as raised:
        Served(bucket, mode="none")
    assert "wJalrSECRET" not in str(raised.value)


@pytest.mark.parametrize(
    ("address", "variable", "value", "module"),
    [
        ("gs://bucket/models", "GOOGLE_APPLICATION_CREDENTIALS", "/no/such/key.json", "gcsfs"),
        ("as://account/container", "AZURE_STORAGE_KEY", "this is no base64!", "adlfs"),
    ],
)
def test_credentials_that_no_library_can_read(address, variable, value, module):
    pytest.importorskip(module)
    log, _ = kept_log()
    parts = CloudParts({variable: value}, ManualClock(), threading.Event(), log)
    with pytest.raises(InvalidArgumentError, match=f"credentials from {variable}") as raised:
        AllRepositories([address], parts).look()
    assert "base64" not in str(raised.value)


def test_a_folder_for_downloads_that_is_not_there(bucket, monkeypatch):
    monkeypatch.setenv("TRITON_AWS_MOUNT_DIRECTORY", "/no/such/folder")
    with pytest.raises(InvalidArgumentError, match="TRITON_AWS_MOUNT_DIRECTORY='/no/such/folder' is no folder"):
        Served(bucket, mode="none")


@pytest.mark.parametrize(
    ("address", "variable"),
    [
        ("s3://b", "TRITON_AWS_MOUNT_DIRECTORY"),
        ("gs://b", "TRITON_GCS_MOUNT_DIRECTORY"),
        ("as://a/c", "TRITON_AZURE_MOUNT_DIRECTORY"),
    ],
)
def test_each_kind_has_its_folder_for_downloads(address, variable):
    log, _ = kept_log()
    parts = CloudParts({variable: "/no/such/folder"}, ManualClock(), threading.Event(), log)
    with pytest.raises(InvalidArgumentError, match=f"{variable}='/no/such/folder' is no folder"):
        AllRepositories([address], parts).look()


def test_a_check_says_the_address_and_leaves_nothing(bucket, local, tmp_path):
    bucket.add("m", 1, 2)
    bucket.add("n", 1, more="no_such_field: 1")
    report = check(ServerOptions(model_repository=[URL]))
    text = "\n".join(str(each.finding) for each in report.findings)
    assert report.models == {"m": (2,), "n": ()}
    assert "/bucket/models/n/config.pbtxt:6" in text
    assert str(tmp_path) not in text
    assert list((tmp_path / "mount").iterdir()) == []


def test_the_index_is_that_of_any_repository(bucket, serve):
    bucket.add("m", 1)
    assert serve(bucket).index() == [("m", None, None)]
