"""The store in a Redis. A Redis that is slow or gone costs hits, never a request and never more than a short time.

Lookups and insertions each have threads of their own, which send what has come together in one round trip. After an
error nobody waits any more: every lookup is a miss at once, until a probe in the background has reached it again.
"""

import threading
from collections.abc import Sequence
from time import monotonic
from typing import Any, Protocol

from charonia.cache.redis_jobs import Jobs, Lookup
from charonia.cache.response import CachedResponse
from charonia.cache.settings import RedisSettings
from charonia.cache.store import Found
from charonia.cache.wire_form import decoded, encoded
from charonia.core.errors import UnavailableError
from charonia.core.log import Log

_PREFIX = b"charonia:response:"
_PROBE_S = 1.0
_CODES = {"invalid username-password pair": "WRONGPASS", "Authentication required": "NOAUTH"}
# In one round trip: large ones delay their first request, small ones cost throughput.
_TOGETHER = 64
_TOGETHER_BYTES = 1024 * 1024
# Each lookup holds a request. A Redis that can't keep up with these has them wait for milliseconds already.
_WAITING_LOOKUPS = 4096
# What may wait to be written: a burst of large answers must not fill the memory.
_WAITING_BYTES = 64 * 1024 * 1024
_LARGEST_BYTES = 512 * 1024 * 1024 - 1024  # what a Redis takes as one value


class RedisClient(Protocol):
    """Of `redis.Redis`, what is used here. Each call is one round trip and ends within its time-outs."""

    def ping(self) -> Any: ...
    def mget(self, keys: Sequence[bytes]) -> Sequence[bytes | None]: ...
    def mset(self, values: dict[bytes, bytes]) -> Any: ...
    def close(self) -> None: ...


class RedisCache:
    """Implements `RemoteStore`.

    Args:
        client: from `redis_client.connect`; closed by `close`.
        threads: that look up; one more inserts.
        wait_s: how long a lookup may wait for a thread.
        unreachable: what the client raises when the Redis can't be reached; other errors say that it refuses something.

    Raises (from the constructor):
        UnavailableError: the Redis can't be reached, or refuses us.
    """

    name = "redis"
    is_shared = True

    def __init__(
        self,
        client: RedisClient,
        address: str,
        log: Log,
        *,
        threads: int = 1,
        wait_s: float = 1.0,
        unreachable: tuple[type[Exception], ...] = (OSError,),
    ) -> None:
        self._client = client
        self._address = address
        self._log = log
        self._wait_s = wait_s
        self._unreachable = unreachable
        self._down = threading.Event()
        self._closing = threading.Event()
        self._refusal_told = False
        self._crowd_told = False
        self._lookups: Jobs[Lookup] = Jobs(_TOGETHER, _WAITING_LOOKUPS, _TOGETHER)
        self._insertions: Jobs[tuple[bytes, bytes]] = Jobs(_TOGETHER, _WAITING_BYTES, _TOGETHER_BYTES)
        try:
            client.ping()
        except Exception as error:
            client.close()
            raise UnavailableError(f"failed to connect to Redis ({address}): {_with_code(str(error))}") from error
        targets = [self._look_up] * threads + [self._insert, self._probe]
        self._threads = [threading.Thread(target=each, name="redis-cache", daemon=True) for each in targets]
        for thread in self._threads:
            thread.start()

    def begin_lookup(self, key: bytes, found: Found) -> None:
        if self._down.is_set():
            found(None)
        elif not self._lookups.put(Lookup(_PREFIX + key, found, monotonic() + self._wait_s), weight=1):
            self._tell_crowd()
            found(None)

    def _tell_crowd(self) -> None:
        if not self._crowd_told and not self._closing.is_set():
            self._crowd_told = True
            self._log.warning(
                f"{_WAITING_LOOKUPS} lookups wait for Redis ({self._address}): requests beyond these are executed "
                "without one; this is told once"
            )

    def insert(self, key: bytes, response: CachedResponse) -> bool:
        if response.nbytes > _LARGEST_BYTES:
            return False
        if not self._down.is_set():
            value = encoded(response)
            self._insertions.put((_PREFIX + key, value), len(value))
        return True

    def close(self) -> None:
        self._closing.set()
        self._down.set()
        self._lookups.close()
        self._insertions.close()
        for thread in self._threads:
            thread.join()
        self._client.close()

    def _look_up(self) -> None:
        while jobs := self._lookups.take():
            in_time = [job for job in jobs if monotonic() < job.until and not self._down.is_set()]
            values = self._values([job.key for job in in_time]) if in_time else ()
            known = dict(zip(in_time, values, strict=True)) if values else {}
            for job in jobs:
                self._tell(job, known.get(job))

    def _tell(self, job: Lookup, value: bytes | None) -> None:
        try:
            job.found(decoded(value) if value is not None else None)
        except Exception as error:  # others wait for this thread
            self._log.error(
                f"what was found in the response cache could not be used by a fault of the server: {error!r}"
            )

    def _values(self, keys: Sequence[bytes]) -> Sequence[bytes | None]:
        try:
            return self._client.mget(keys)
        except Exception as error:
            self._failed(error)
            return ()

    def _insert(self) -> None:
        while pairs := self._insertions.take():
            if self._down.is_set():
                continue
            try:
                self._client.mset(dict(pairs))
            except Exception as error:  # a large answer on a slow line may take too long: lookups need not suffer
                self._refused(error)

    def _failed(self, error: Exception) -> None:
        """Who can't be reached is not asked any more; who refuses something is."""
        if not isinstance(error, self._unreachable):
            self._refused(error)
            return
        if not self._down.is_set():
            self._log.error(f"Redis ({self._address}) can't be reached, requests are executed meanwhile: {error}")
        self._down.set()

    def _refused(self, error: Exception) -> None:
        """Told once until a probe has succeeded."""
        if not self._refusal_told:
            self._refusal_told = True
            self._log.error(f"Redis ({self._address}) does not do what the response cache asks for: {error}")

    def _probe(self) -> None:
        """While it can't be reached, ask again from time to time."""
        while True:
            self._down.wait()
            if self._closing.wait(_PROBE_S):
                return
            try:
                self._client.ping()
            except Exception:
                continue
            self._refusal_told = False
            self._down.clear()
            if self._closing.is_set():
                return
            self._log.info(f"Redis ({self._address}) is reached again")


def _with_code(sentence: str) -> str:
    """With the word by which Redis names such a refusal, and by which people look for it: the client drops it."""
    code = next((code for start, code in _CODES.items() if sentence.startswith(start)), "")
    return f"{code} {sentence}" if code else sentence


def address_of(settings: RedisSettings) -> str:
    return f"{settings.host}:{settings.port}"
