"""A store in memory that can be away, refuse, be slow to change its mind, and change while it is read."""

import threading
from pathlib import Path

from charonia.core.cloud_address import parse_cloud_address
from charonia.repository.remote.credentials import Credentials
from charonia.repository.remote.retries import SteadyStore
from charonia.repository.remote.stores import StoredObject
from charonia.testing.clock import ManualClock
from charonia.testing.log import kept_log


class FakeStore:
    """See `remote.stores.Store`.

    Attributes:
        content: by key; a key that ends with "/" marks a folder.
        faults: raised one after the other by the next calls.
        fetched: the keys that were fetched, in order; listed: what was listed.
        on_fetch: called with the key before its content is given.
    """

    def __init__(self, content=None):
        self.content: dict[str, bytes] = dict(content or {})
        self.faults: list[Exception] = []
        self.fetched: list[str] = []
        self.listed: list[str] = []
        self.on_fetch = lambda key: None
        self._numbers: dict[str, int] = {}
        self._lock = threading.Lock()

    def put(self, key, content):
        self.content[key] = content
        self._numbers[key] = self._numbers.get(key, 0) + 1

    def upload(self, bucket, folder):
        """As a tool for that does: what is not in the folder goes."""
        there = {f"{bucket}/{path.relative_to(folder)}": path for path in Path(folder).rglob("*") if path.is_file()}
        for key in [key for key in self.content if key.startswith(f"{bucket}/") and key not in there]:
            del self.content[key]
        for key, path in there.items():
            if self.content.get(key) != path.read_bytes():
                self.put(key, path.read_bytes())

    def objects(self, under):
        self._fail()
        self.listed.append(under)
        bucket = under.partition("/")[0]
        if not any(key.startswith(f"{bucket}/") for key in self.content):
            raise FileNotFoundError(f"there is no '{bucket}' in this store")
        return [
            StoredObject(key, len(content), str(self._numbers.get(key, 0)))
            for key, content in sorted(self.content.items())
            if key.startswith(f"{under}/")
        ]

    def folders(self, under):
        self._fail()
        self.listed.append(f"{under}/*")
        inner = [key.removeprefix(f"{under}/") for key in self.content if key.startswith(f"{under}/")]
        return sorted({each.partition("/")[0] for each in inner if "/" in each})

    def fetch(self, key, to, on_bytes):
        self._fail()
        self.on_fetch(key)
        with self._lock:
            self.fetched.append(key)
        if key not in self.content:
            raise FileNotFoundError(key)
        Path(to).write_bytes(self.content[key])
        on_bytes(len(self.content[key]))

    def _fail(self):
        if self.faults:
            raise self.faults.pop(0)


class NoWaiting(threading.Event):
    """In place of the event of a stop: waits take no time but on the clock."""

    def __init__(self, clock):
        super().__init__()
        self.clock = clock

    def wait(self, timeout=None):
        self.clock.advance(us=int((timeout or 0) * 1e6))
        return self.is_set()


CREDENTIALS = Credentials("AWS_ACCESS_KEY_ID", {"key_id": "AKIAEXAMPLE", "secret_key": "wJalrSECRET"})


def steady(store, address="s3://host:1/bucket/models", credentials=CREDENTIALS, reopen=None):
    """The store with its retries; its `stopping` and `lines` beside it."""
    clock = ManualClock()
    log, lines = kept_log(verbose_level=1)
    made = SteadyStore(
        parse_cloud_address(address), reopen or (lambda: (store, credentials)), clock, NoWaiting(clock), log
    )
    made.lines = lines
    return made
