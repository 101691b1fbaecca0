"""A connection to Redis by the package `redis`, which comes with the extra of that name."""

import ssl
from typing import TYPE_CHECKING, Any, cast

from charonia.cache.settings import RedisSettings
from charonia.core.errors import InvalidArgumentError, UnavailableError

if TYPE_CHECKING:
    from charonia.cache.redis_store import RedisClient

# The threads that look up, the one that inserts, the one that probes: nobody waits for another's connection.
_OTHER_THREADS = 2


def connect(settings: RedisSettings) -> tuple["RedisClient", tuple[type[Exception], ...]]:
    """A client that has not connected yet, and what it raises when the Redis can't be reached.

    Raises:
        UnavailableError: the package is not installed.
        InvalidArgumentError: a file of TLS can't be read.
    """
    try:
        import redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError as error:
        raise UnavailableError(
            f"--cache-config=redis needs a package more: pip install charonia[redis] ({error})"
        ) from None
    unreachable = (redis.exceptions.ConnectionError, redis.exceptions.TimeoutError, OSError)
    client = redis.Redis(
        host=settings.host,
        port=settings.port,
        db=settings.db,
        protocol=2,  # which every Redis speaks, and whose refusals say what is missing
        username=settings.user or None,
        password=settings.password or None,
        socket_connect_timeout=settings.connect_timeout_ms / 1000,
        socket_timeout=settings.socket_timeout_ms / 1000,
        # A connection that the Redis has closed while it was idle is opened anew; else nothing is tried twice: the
        # package by itself would go on for half a minute.
        retry=Retry(NoBackoff(), 1, supported_errors=(redis.exceptions.ConnectionError,)),
        max_connections=settings.pool_size + _OTHER_THREADS,
        **_tls(settings),
    )
    return cast("RedisClient", client), unreachable


def _tls(settings: RedisSettings) -> dict[str, Any]:
    if not settings.tls_enabled:
        return {}
    _check_files(settings)
    return {
        "ssl": True,
        "ssl_certfile": settings.cert or None,
        "ssl_keyfile": settings.key or None,
        "ssl_ca_certs": settings.cacert or None,
        "ssl_ca_path": settings.cacert_dir or None,
        "ssl_cert_reqs": "required",
        "ssl_check_hostname": True,
    }


def _check_files(settings: RedisSettings) -> None:
    context = ssl.create_default_context()
    try:
        if settings.cacert or settings.cacert_dir:
            context.load_verify_locations(settings.cacert or None, settings.cacert_dir or None)
        if settings.cert:
            context.load_cert_chain(settings.cert, settings.key or None)
    except OSError as error:  # ssl.SSLError is one
        raise InvalidArgumentError(f"--cache-config=redis: a certificate or key can't be read: {error}") from None
