"""From settings to the store that they ask for."""

from charonia.cache.local import LocalCache
from charonia.cache.redis_client import connect
from charonia.cache.redis_store import RedisCache, address_of
from charonia.cache.settings import CacheSettings, LocalSettings
from charonia.cache.store import Store
from charonia.core.log import Log


def open_store(settings: CacheSettings | None, log: Log) -> Store | None:
    """The store, ready; None where there are no settings.

    Raises:
        UnavailableError: a Redis that can't be reached, or whose package is missing.
        InvalidArgumentError: a file that can't be read.
    """
    if settings is None:
        return None
    if isinstance(settings, LocalSettings):
        log.info(f"Response cache: local, {settings.limit_bytes} bytes")
        return LocalCache(settings.limit_bytes)
    client, unreachable = connect(settings)
    store = RedisCache(
        client,
        address_of(settings),
        log,
        threads=settings.pool_size,
        wait_s=settings.wait_timeout_ms / 1000,
        unreachable=unreachable,
    )
    log.info(f"Response cache: Redis ({address_of(settings)})")
    return store
