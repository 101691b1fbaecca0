"""One object store: what lies in it, and its bytes. By fsspec, which knows the three kinds and a store in memory."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from importlib import import_module
from pathlib import Path
from types import MethodType
from typing import Any, Protocol

from charonia.core.cloud_address import CloudAddress
from charonia.core.errors import UnsupportedError
from charonia.repository.remote.credentials import Credentials

_CONNECT_S = 5
_READ_S = 60
# s3fs keeps the parts of a large file in memory: with its own 10 of 50 MB, sixteen files would take 8 GB.
_PART_BYTES = 8 << 20
_PARTS_AT_ONCE = 4
# By kind: the module, its class, and the extra that installs it. Of gcsfs the plain one: the other asks for each
# bucket's kind with credentials of its own, again and again where there are none.
_FILE_SYSTEMS: Mapping[str, tuple[str, str, str]] = {
    "s3": ("s3fs", "S3FileSystem", "s3"),
    "gs": ("gcsfs.core", "GCSFileSystem", "gcs"),
    "as": ("adlfs", "AzureBlobFileSystem", "azure"),
}


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object as a listing tells.

    Attributes:
        key: its name in the store, with the bucket; ends with "/" for one that only marks a folder.
        size: in bytes.
        stamp: another one when the content has changed: its etag and its time.
    """

    key: str
    size: int
    stamp: str


class Store(Protocol):
    """All methods raise whatever the library raises; `retries.py` makes sense of it."""

    def objects(self, under: str) -> Sequence[StoredObject]:
        """Everything below a folder, any deep: one listing. [] where there is nothing; raises where no bucket is."""
        ...

    def folders(self, under: str) -> Sequence[str]:
        """The names of the folders right in a folder."""
        ...

    def fetch(self, key: str, to: Path, on_bytes: Callable[[int], None]) -> None:
        """Write an object's content to a file.

        Args:
            on_bytes: told the number of bytes as they come; what it raises ends the fetch.
        """
        ...


def check_installed(kind: str) -> None:
    """
    Raises:
        UnsupportedError: the extra is missing.
    """
    module, _, extra = _FILE_SYSTEMS[kind]
    try:
        import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise UnsupportedError(
            f"repositories in {kind}:// need the package {package}, which can't be imported ({error}): "
            f"pip install 'charonia[{extra}]'"
        ) from None


def open_store(address: CloudAddress, credentials: Credentials) -> Store:
    """Nothing is asked of the store yet. A listing is never answered from an earlier one.

    Raises:
        UnsupportedError: the extra is missing.
    """
    check_installed(address.kind)
    module, name, _ = _FILE_SYSTEMS[address.kind]
    settings = _SETTINGS[address.kind](address, credentials)
    make = getattr(import_module(module), name)
    file_system = make(use_listings_cache=False, skip_instance_cache=True, **settings)
    if address.kind == "s3":
        file_system.retries = 1  # ours know of a stop
    if address.kind == "gs":
        _try_once(file_system)
    return FsspecStore(file_system)


def _try_once(file_system: Any) -> None:
    """gcsfs tries six times in half a minute and prints what it caught; `retries.py` does both, and knows of a stop."""
    logging.getLogger("gcsfs").addHandler(logging.NullHandler())
    for name in ("_request", "_get_file_request", "_get_file_concurrent"):
        once = getattr(getattr(type(file_system), name, None), "__wrapped__", None)
        if once is not None:
            setattr(file_system, name, MethodType(once, file_system))


class FsspecStore:
    """See `Store`; over any file system of fsspec."""

    def __init__(self, file_system: Any) -> None:
        self._file_system = file_system

    def objects(self, under: str) -> Sequence[StoredObject]:
        self._file_system.invalidate_cache()
        try:
            found = self._file_system.find(under, detail=True, withdirs=True)
        except FileNotFoundError:
            self._check_bucket(under)
            raise
        if not found:
            self._check_bucket(under)
        # A listing by prefix gives what only begins alike too.
        return [_object(key, found[key]) for key in sorted(found) if key.startswith(f"{under}/")]

    def folders(self, under: str) -> Sequence[str]:
        self._file_system.invalidate_cache()
        try:
            found = self._file_system.ls(under, detail=True)
        except FileNotFoundError:
            if "/" not in under:
                raise  # the bucket
            return []
        names = (each["name"] for each in found if each["type"] == "directory")
        return [name.rstrip("/").removeprefix(f"{under}/") for name in names if name.rstrip("/") != under]

    def _check_bucket(self, under: str) -> None:
        """Not every library tells an empty bucket from none."""
        bucket = under.partition("/")[0]
        if not self._file_system.exists(bucket):
            raise FileNotFoundError(f"there is no '{bucket}' in this store")

    def fetch(self, key: str, to: Path, on_bytes: Callable[[int], None]) -> None:
        self._file_system.get_file(key, str(to), callback=_progress(on_bytes))


_TIMES = ("LastModified", "mtime", "updated", "last_modified", "created")


def _object(key: str, info: Mapping[str, Any]) -> StoredObject:
    # Each library has its own name for the same: S3, Google, Azure, memory.
    if info["type"] == "directory":
        return StoredObject(f"{key.rstrip('/')}/", 0, "")
    tag = info.get("ETag") or info.get("etag") or info.get("content_settings", {}).get("content_md5") or ""
    time = next((info[name] for name in _TIMES if info.get(name)), "")
    shown = time.isoformat() if isinstance(time, datetime) else str(time)
    return StoredObject(key, int(info.get("size") or 0), f"{tag} {info.get('generation', '')} {shown}")


def _progress(on_bytes: Callable[[int], None]) -> Any:
    from fsspec.callbacks import Callback  # type: ignore[import-untyped]

    class Progress(Callback):  # type: ignore[misc]
        def relative_update(self, inc: int = 1) -> None:
            on_bytes(inc)

    return Progress()


def _s3(address: CloudAddress, credentials: Credentials) -> dict[str, Any]:
    """As in Triton: keys, else a profile, else what the AWS configuration says."""
    client: dict[str, Any] = {}
    if credentials.get("region"):
        client["region_name"] = credentials.get("region")
    config: dict[str, Any] = {
        "connect_timeout": _CONNECT_S,
        "read_timeout": _READ_S,
        "retries": {"max_attempts": 0},  # `retries.py` does it
    }
    settings: dict[str, Any] = {
        "client_kwargs": client,
        "config_kwargs": config,
        "default_block_size": _PART_BYTES,
        "max_concurrency": _PARTS_AT_ONCE,
    }
    if address.endpoint:
        settings["endpoint_url"] = address.endpoint
        config["s3"] = {"addressing_style": "path"}
    if credentials.get("key_id") and credentials.get("secret_key"):
        settings |= {"key": credentials.get("key_id"), "secret": credentials.get("secret_key")}
        settings |= {"token": credentials.get("session_token")} if credentials.get("session_token") else {}
    elif credentials.get("profile"):
        settings["profile"] = credentials.get("profile")
    else:
        settings["anon"] = not _has_aws_credentials()
    return settings


def _has_aws_credentials() -> bool:
    """Whether the AWS configuration, the machine or its container gives any; else a bucket must be public."""
    from botocore.session import Session  # type: ignore[import-untyped]

    return Session().get_credentials() is not None


def _gs(address: CloudAddress, credentials: Credentials) -> dict[str, Any]:
    """Without a file: the machine's own account, else anonymous, which the library finds out."""
    return {"token": credentials.get("path") or None}


def _as(address: CloudAddress, credentials: Credentials) -> dict[str, Any]:
    settings: dict[str, Any] = {"account_name": credentials.get("account_str") or address.account}
    kind = credentials.get("auth_type")
    if kind == "managed_identity":
        from azure.identity.aio import ManagedIdentityCredential

        client = credentials.get("client_id")
        settings["credential"] = ManagedIdentityCredential(client_id=client) if client else ManagedIdentityCredential()
    elif kind == "default":
        settings["anon"] = False
    elif credentials.get("account_key"):
        settings["account_key"] = credentials.get("account_key")
    else:
        settings["anon"] = True
    return settings


_SETTINGS: Mapping[str, Callable[[CloudAddress, Credentials], dict[str, Any]]] = {"s3": _s3, "gs": _gs, "as": _as}
