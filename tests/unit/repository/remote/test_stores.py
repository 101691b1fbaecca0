"""What fsspec's file systems are told, and what they tell. None of them is asked over a network here."""

import sys

import pytest

from charonia.core.cloud_address import parse_cloud_address
from charonia.core.errors import UnsupportedError
from charonia.repository.remote import stores
from charonia.repository.remote.credentials import Credentials


@pytest.fixture
def memory():
    fsspec = pytest.importorskip("fsspec")
    made = fsspec.filesystem("memory", skip_instance_cache=True)
    made.store, made.pseudo_dirs = {}, [""]
    for path, text in {"b/models/m/1/x": b"12", "b/models/m/config.pbtxt": b"c", "b/models2/n/1/x": b""}.items():
        made.pipe(f"/{path}", text)
    made.mkdirs("/b/models/ens/1")
    yield made
    made.store.clear()


class Relative:
    """The memory file system puts a slash before keys, which the stores in clouds don't."""

    def __init__(self, inner):
        self._inner = inner

    def find(self, path, **options):
        found = self._inner.find(f"/{path}", **options)
        return {key.lstrip("/"): {**info, "name": key.lstrip("/")} for key, info in found.items()}

    def ls(self, path, **options):
        return [{**info, "name": info["name"].lstrip("/")} for info in self._inner.ls(f"/{path}", **options)]

    def __getattr__(self, name):
        return getattr(self._inner, name)


def test_a_listing_has_sizes_stamps_and_folders(memory):
    found = {each.key: each for each in stores.FsspecStore(Relative(memory)).objects("b/models")}
    assert {"b/models/m/1/x", "b/models/m/config.pbtxt", "b/models/ens/1/"} <= set(found)
    assert not any("models2" in key for key in found)
    assert found["b/models/m/1/x"].size == 2
    before = found["b/models/m/1/x"].stamp
    memory.pipe("/b/models/m/1/x", b"34")
    after = {each.key: each for each in stores.FsspecStore(Relative(memory)).objects("b/models")}
    assert before.strip()
    assert before != after["b/models/m/1/x"].stamp


def test_the_folders_right_in_a_folder(memory):
    assert sorted(stores.FsspecStore(Relative(memory)).folders("b/models")) == ["ens", "m"]
    assert stores.FsspecStore(Relative(memory)).folders("b/nothing") == []


class Answering:
    """A file system that says this of a listing and of the bucket."""

    def __init__(self, listing, has_bucket):
        self._listing, self._has_bucket = listing, has_bucket

    def invalidate_cache(self): ...

    def find(self, path, **options):
        if isinstance(self._listing, Exception):
            raise self._listing
        return self._listing

    def exists(self, path):
        return self._has_bucket


def test_an_empty_bucket_is_no_missing_one():
    assert stores.FsspecStore(Answering({}, True)).objects("b/models") == []
    for listing in ({}, FileNotFoundError()):
        with pytest.raises(FileNotFoundError, match="there is no 'b' in this store"):
            stores.FsspecStore(Answering(listing, False)).objects("b/models")
    with pytest.raises(FileNotFoundError, match="said so"):  # a listing that failed is no empty one
        stores.FsspecStore(Answering(FileNotFoundError("said so"), True)).objects("b/models")


def test_a_fetch_tells_its_bytes(memory, tmp_path):
    came = []
    stores.FsspecStore(memory).fetch("/b/models/m/1/x", tmp_path / "x", came.append)
    assert (tmp_path / "x").read_bytes() == b"12"
    assert sum(came) == 2


def settings(text, **values):
    address = parse_cloud_address(text)
    return stores._SETTINGS[address.kind](address, Credentials("test", values))


def test_s3_keys_before_profile_before_the_configuration(monkeypatch):
    keys = settings("s3://b", key_id="a", secret_key="b", session_token="c", profile="p", region="eu")
    assert (keys["key"], keys["secret"], keys["token"]) == ("a", "b", "c")
    assert "profile" not in keys
    assert keys["client_kwargs"] == {"region_name": "eu"}
    assert settings("s3://b", key_id="a", profile="p")["profile"] == "p"
    monkeypatch.setattr(stores, "_has_aws_credentials", lambda: False)
    assert settings("s3://b")["anon"] is True
    monkeypatch.setattr(stores, "_has_aws_credentials", lambda: True)
    assert settings("s3://b")["anon"] is False


def test_a_server_of_its_own_is_asked_by_paths():
    made = settings("s3://https://host:9000/b", key_id="a", secret_key="b")
    assert made["endpoint_url"] == "https://host:9000"
    assert made["config_kwargs"]["s3"] == {"addressing_style": "path"}
    assert "endpoint_url" not in settings("s3://b", key_id="a", secret_key="b")


def test_google_by_file_or_by_what_the_machine_is():
    assert settings("gs://b", path="/key.json") == {"token": "/key.json"}
    assert settings("gs://b") == {"token": None}


def test_azure_by_key_by_identity_or_anonymous():
    assert settings("as://account/c", account_key="k") == {"account_name": "account", "account_key": "k"}
    assert settings("as://account/c", account_str="other") == {"account_name": "other", "anon": True}
    assert settings("as://account/c", auth_type="default") == {"account_name": "account", "anon": False}
    pytest.importorskip("azure.identity")
    made = settings("as://account/c", auth_type="managed_identity", client_id="id", account_key="not used")
    assert type(made["credential"]).__name__ == "ManagedIdentityCredential"
    assert "account_key" not in made


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("s3://host:9000/b", {"key_id": "a", "secret_key": "b"}),
        ("as://account/c", {"account_key": "a2V5"}),
    ],
)
def test_the_libraries_take_these_settings(text, values):
    address = parse_cloud_address(text)
    pytest.importorskip({"s3": "s3fs", "as": "adlfs"}[address.kind])
    assert isinstance(stores.open_store(address, Credentials("test", values)), stores.FsspecStore)


@pytest.mark.parametrize(
    ("kind", "module", "extra"), [("s3", "s3fs", "s3"), ("gs", "gcsfs.core", "gcs"), ("as", "adlfs", "azure")]
)
def test_a_missing_package_is_told_with_the_command_that_installs_it(monkeypatch, kind, module, extra):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(UnsupportedError, match=rf"pip install 'charonia\[{extra}\]'"):
        stores.check_installed(kind)


def test_a_store_of_google_that_is_away_is_asked_once_and_nothing_is_printed(monkeypatch, capfd):
    """Its library waits between tries of its own, by a number of `random`, and prints each error."""
    pytest.importorskip("gcsfs")
    monkeypatch.setenv("STORAGE_EMULATOR_HOST", "http://127.0.0.1:1")
    monkeypatch.setattr("gcsfs.retry.random", None)
    monkeypatch.setattr(stores, "_SETTINGS", {"gs": lambda address, credentials: {"token": "anon"}})
    store = stores.open_store(parse_cloud_address("gs://bucket/models"), Credentials("test", {}))
    with pytest.raises(Exception, match="Cannot connect"):
        store.objects("bucket/models")
    assert capfd.readouterr() == ("", "")
