"""What `--cache-config` says, checked."""

import os
from collections.abc import Mapping
from dataclasses import dataclass

from charonia.core.errors import InvalidArgumentError, UnsupportedError
from charonia.core.text import whole_number

BYTE_SIZE = "response-cache-byte-size"
"""The setting of the local cache under which the deprecated flag's value is carried."""

_MOST_BYTES = 2**63 - 1
_MOST_MS = 3_600_000
_FLAG = "--cache-config"
_REDIS_KEYS = (
    "host",
    "port",
    "user",
    "password",
    "db",
    "connect_timeout",
    "socket_timeout",
    "pool_size",
    "wait_timeout",
    "tls_enabled",
    "cert",
    "key",
    "cacert",
    "cacert_dir",
    "sni",
)


@dataclass(frozen=True, slots=True)
class LocalSettings:
    """The cache in this process."""

    limit_bytes: int


@dataclass(frozen=True, slots=True)
class RedisSettings:
    """The cache in a Redis. Times in milliseconds; none is endless: nothing here may hold a request up.

    Attributes:
        pool_size: threads that look up, each with a connection.
        wait_timeout_ms: how long a lookup may wait for one of them.
        cert, key, cacert, cacert_dir: files of TLS, "" for none.
    """

    host: str
    port: int
    user: str = ""
    password: str = ""
    db: int = 0
    connect_timeout_ms: int = 250
    socket_timeout_ms: int = 250
    pool_size: int = 1
    wait_timeout_ms: int = 1000
    tls_enabled: bool = False
    cert: str = ""
    key: str = ""
    cacert: str = ""
    cacert_dir: str = ""

    def __repr__(self) -> str:
        """Without the password: this may be logged."""
        return f"RedisSettings(host={self.host!r}, port={self.port}, db={self.db}, tls_enabled={self.tls_enabled})"


CacheSettings = LocalSettings | RedisSettings


def parse_cache_config(
    caches: Mapping[str, Mapping[str, str]], environ: Mapping[str, str] = os.environ
) -> CacheSettings | None:
    """From the values of `--cache-config=<cache>,<key>=<value>`, by cache; None when there is no cache.

    Args:
        environ: where TRITONCACHE_REDIS_USERNAME and TRITONCACHE_REDIS_PASSWORD are looked for.

    Raises:
        InvalidArgumentError: several caches, an unknown one, a setting that it does not have, or one that is missing.
        UnsupportedError: a setting that can't be followed.
    """
    _refuse_both_flags(caches)
    if len(caches) > 1:
        raise InvalidArgumentError(
            f"{_FLAG}: multiple cache configurations ({', '.join(sorted(caches))}), and a server has only one cache"
        )
    for name, settings in caches.items():
        if name == "local":
            return _local(settings)
        if name == "redis":
            return _redis(settings, environ)
        wanted = "a cache's name first, such as local,size=1048576" if not name else f"local or redis, got '{name}'"
        raise InvalidArgumentError(f"{_FLAG}: expected {wanted}")
    return None


def _refuse_both_flags(caches: Mapping[str, Mapping[str, str]]) -> None:
    if BYTE_SIZE in caches.get("local", {}) and (len(caches) > 1 or len(caches["local"]) > 1):
        raise InvalidArgumentError(
            f"--{BYTE_SIZE} and {_FLAG} are incompatible flags: the first one is deprecated and means "
            f"{_FLAG}=local,size=N, so give only the second"
        )


def _local(settings: Mapping[str, str]) -> LocalSettings | None:
    if BYTE_SIZE in settings:
        size = _number(f"--{BYTE_SIZE}", settings[BYTE_SIZE], 0, _MOST_BYTES)
        return LocalSettings(size) if size else None
    _refuse_unknown("local", settings, ("size",))
    if "size" not in settings:
        raise InvalidArgumentError(f"{_FLAG}=local needs size, its bytes of memory: {_FLAG}=local,size=1048576")
    return LocalSettings(_number(f"{_FLAG}=local,size", settings["size"], 1, _MOST_BYTES))


def _redis(settings: Mapping[str, str], environ: Mapping[str, str]) -> RedisSettings:
    _refuse_unknown("redis", settings, _REDIS_KEYS)
    if "host" not in settings or "port" not in settings:
        raise InvalidArgumentError(
            f"{_FLAG}=redis must at a minimum specify host and port: {_FLAG}=redis,host=localhost "
            f"{_FLAG}=redis,port=6379"
        )
    _check_server_name(settings)

    def number(key: str, otherwise: int, least: int, most: int) -> int:
        return _number(f"{_FLAG}=redis,{key}", settings[key], least, most) if key in settings else otherwise

    usual = RedisSettings(settings["host"], number("port", 0, 1, 65535))
    return RedisSettings(
        usual.host,
        usual.port,
        settings.get("user", environ.get("TRITONCACHE_REDIS_USERNAME", "")),
        settings.get("password", environ.get("TRITONCACHE_REDIS_PASSWORD", "")),
        number("db", usual.db, 0, 2**31 - 1),
        number("connect_timeout", 0, 0, _MOST_MS) or usual.connect_timeout_ms,
        number("socket_timeout", 0, 0, _MOST_MS) or usual.socket_timeout_ms,
        number("pool_size", usual.pool_size, 1, 256),
        number("wait_timeout", 0, 0, _MOST_MS) or usual.wait_timeout_ms,
        _truth(f"{_FLAG}=redis,tls_enabled", settings.get("tls_enabled", "false")),
        settings.get("cert", ""),
        settings.get("key", ""),
        settings.get("cacert", ""),
        settings.get("cacert_dir", ""),
    )


def _check_server_name(settings: Mapping[str, str]) -> None:
    if settings.get("sni", settings["host"]) != settings["host"]:
        raise UnsupportedError(
            f"{_FLAG}=redis,sni is '{settings['sni']}': another server name than that of the host "
            f"('{settings['host']}') can't be asked for; name that host, or leave sni out"
        )


def _refuse_unknown(cache: str, settings: Mapping[str, str], known: tuple[str, ...]) -> None:
    unknown = next((key for key in settings if key not in known), None)
    if unknown is not None:
        raise InvalidArgumentError(f"{_FLAG}={cache} has no setting '{unknown}': expected one of {', '.join(known)}")


def _number(what: str, value: str, least: int, most: int) -> int:
    number = whole_number(value)
    if number is None or not least <= number <= most:
        raise InvalidArgumentError(f"{what} must be a whole number from {least} to {most}, got '{value}'")
    return number


def _truth(what: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise InvalidArgumentError(f"{what} is true or false, got '{value}'")
    return value.lower() == "true"
