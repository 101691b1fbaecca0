"""--cache-config: what it may say, and what is said of the rest."""

import pytest

from charonia.cache.settings import LocalSettings, RedisSettings, parse_cache_config
from charonia.cli.parse import parse_flags
from charonia.core.errors import InvalidArgumentError, UnsupportedError

REDIS = {"host": "h", "port": "6379"}


def parsed(*words, environ=None):
    options = parse_flags(["--model-repository=/m", *words]).options
    return parse_cache_config(options.cache_config, environ or {})


def test_none():
    assert parsed() is None
    assert parsed("--response-cache-byte-size=0") is None


def test_local():
    assert parsed("--cache-config=local,size=1048576") == LocalSettings(1048576)
    assert parsed("--cache-config", "local,size=1", "--cache-config", "local,size=2") == LocalSettings(2)
    assert parsed("--response-cache-byte-size=8192") == LocalSettings(8192)


def test_redis():
    assert parse_cache_config({"redis": REDIS}, {}) == RedisSettings("h", 6379)
    names = (
        "user password db connect_timeout socket_timeout pool_size wait_timeout tls_enabled cert key cacert cacert_dir"
    )
    values = "u p 3 5 6 7 8 true c k a d"
    every = REDIS | dict(zip(names.split(), values.split(), strict=True)) | {"sni": "h"}
    wanted = RedisSettings(
        "h", 6379, "u", "p", 3, 5, 6, 7, 8, tls_enabled=True, cert="c", key="k", cacert="a", cacert_dir="d"
    )
    assert parse_cache_config({"redis": every}, {}) == wanted


def test_credentials_come_from_the_environment_unless_they_are_given():
    environ = {"TRITONCACHE_REDIS_USERNAME": "eu", "TRITONCACHE_REDIS_PASSWORD": "ep"}
    found = parse_cache_config({"redis": REDIS}, environ)
    assert (found.user, found.password) == ("eu", "ep")
    found = parse_cache_config({"redis": REDIS | {"password": "p"}}, environ)
    assert (found.user, found.password) == ("eu", "p")


def test_endless_times_are_the_usual_ones():
    zeros = {"connect_timeout": "0", "socket_timeout": "0", "wait_timeout": "0"}
    assert parse_cache_config({"redis": REDIS | zeros}, {}) == RedisSettings("h", 6379)


def test_the_password_is_not_shown():
    assert "secret" not in repr(RedisSettings("h", 1, password="secret"))


WRONG = [
    (["--cache-config=size=1"], "expected a cache's name first, such as local,size=1048576"),
    (["--cache-config=mine,size=1"], "expected local or redis, got 'mine'"),
    (["--cache-config=local,bytes=1"], "local has no setting 'bytes': expected one of size"),
    (["--cache-config=local,size=0"], "local,size must be a whole number from 1 to 9223372036854775807, got '0'"),
    (["--cache-config=local,size=1MB"], "got '1MB'"),
    (["--cache-config=local,size=-1"], "got '-1'"),
    (["--cache-config=local"], "expected <name>,<setting>=<value>"),
    (["--response-cache-byte-size=-1"], "--response-cache-byte-size must be a whole number from 0 to .*, got '-1'"),
    (["--response-cache-byte-size=x"], "--response-cache-byte-size: expected a whole number, got 'x'"),
    (["--cache-config=local,size=1", "--cache-config=redis,key=value"], "multiple cache configurations .local, redis."),
    (["--cache-config=local,size=1", "--response-cache-byte-size=1"], "incompatible flags"),
    (["--cache-config=redis,host=h", "--response-cache-byte-size=1"], "incompatible flags"),
    (["--cache-config=redis,port=1"], "must at a minimum specify host and port"),
    (
        ["--cache-config=redis,host=h", "--cache-config=redis,port=x"],
        "redis,port must be a whole number from 1 to 65535",
    ),
    (
        ["--cache-config=redis,host=h", "--cache-config=redis,port=1", "--cache-config=redis,hots=1"],
        "no setting 'hots'",
    ),
    (
        ["--cache-config=redis,host=h", "--cache-config=redis,port=1", "--cache-config=redis,tls_enabled=yes"],
        "true or false",
    ),
]


@pytest.mark.parametrize(("words", "sentence"), WRONG)
def test_wrong_settings_refuse_the_start(words, sentence):
    with pytest.raises(InvalidArgumentError, match=sentence):
        parsed(*words)


def test_another_server_name_can_not_be_asked_for():
    with pytest.raises(UnsupportedError, match="redis,sni is 'other'"):
        parse_cache_config({"redis": REDIS | {"sni": "other"}}, {})
