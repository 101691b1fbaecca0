"""Flags of TLS, secrets, forwarded headers and Unix sockets."""

import pytest

from charonia.cli.parse import parse_flags
from charonia.core.errors import InvalidArgumentError
from charonia.core.tls import TlsFiles
from charonia.options import ServerOptions

REPOSITORY = "--model-repository=/models"
GRPC_FILES = ("--grpc-server-cert=c.pem", "--grpc-server-key=k.pem", "--grpc-root-cert=r.pem")
HTTP_FILES = ("--http-server-cert=c.pem", "--http-server-key=k.pem", "--http-root-cert=r.pem")


def options(*flags: str) -> ServerOptions:
    return parse_flags([REPOSITORY, *flags]).options


@pytest.mark.parametrize(
    ("flags", "roots"),
    [
        (["--grpc-use-ssl=1"], None),
        (["--grpc-use-ssl", "true", "--grpc-use-ssl-mutual=false"], None),
        (["--grpc-use-ssl-mutual=1"], "r.pem"),
        (["--grpc-use-ssl=false", "--grpc-use-ssl-mutual=true"], "r.pem"),
    ],
)
def test_files_of_grpc(flags: list[str], roots: str | None) -> None:
    assert options(*flags, *GRPC_FILES).tls_of("grpc") == TlsFiles("c.pem", "k.pem", roots)


def test_without_the_switch_files_of_grpc_mean_nothing() -> None:
    for flags in (GRPC_FILES, (*GRPC_FILES, "--grpc-use-ssl-mutual=false")):
        assert options(*flags).tls_of("grpc") is None
        assert not options(*flags).uses_tls


def test_the_metrics_port_has_the_files_of_http() -> None:
    given = options("--http-use-ssl=true", "--metrics-use-ssl=true", *HTTP_FILES)
    assert given.tls_of("metrics") == given.tls_of("http") == TlsFiles("c.pem", "k.pem", None)
    assert options("--http-use-ssl=true", *HTTP_FILES).tls_of("metrics") is None
    alone = options("--metrics-use-ssl=true", *HTTP_FILES)
    assert (alone.tls_of("metrics"), alone.tls_of("http")) == (TlsFiles("c.pem", "k.pem", None), None)


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--grpc-use-ssl=true"], "--grpc-use-ssl needs --grpc-server-cert"),
        (["--http-use-ssl=true", "--http-server-cert=c.pem"], "--http-use-ssl needs --http-server-key"),
        (["--http-use-ssl-mutual=true", *HTTP_FILES[:2]], "--http-use-ssl-mutual needs --http-root-cert"),
        (["--metrics-use-ssl=true"], "--metrics-use-ssl needs --http-server-cert"),
        (["--http-server-cert=c.pem"], "count only with --http-use-ssl"),
        (["--http-restricted-api=inference:k=hidden", "--http-restricted-api=inference:k=hidden"], "multiple config"),
        (["--grpc-restricted-protocol=infer:k=hidden"], "unknown restricted protocol 'infer'"),
        (["--http-address=unix:"], "--http-address=unix: must name a socket"),
        (["--http-address=unix:/a", "--grpc-address=unix:/a"], "choose two sockets"),
    ],
)
def test_what_can_not_be(flags: list[str], words: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        options(*flags)
    assert words in str(refused.value)
    assert "hidden" not in str(refused.value)


def test_secrets_are_not_shown() -> None:
    given = options("--http-restricted-api=inference:k=hidden", "--grpc-restricted-protocol=inference:k=hidden")
    assert "hidden" not in repr(given)
    assert given.http_keys()["inference"].secret == given.grpc_keys()["inference"].secret == "hidden"
    assert given.grpc_keys()["inference"].header == "triton-grpc-protocol-k"


def test_metrics_beside_a_socket_are_for_this_machine() -> None:
    assert options("--http-address=unix:/a").metrics_listen_address == "127.0.0.1"
    assert options("--http-address=::1").metrics_listen_address == "::1"
    assert options("--http-address=unix:/a", "--metrics-address=0.0.0.0").metrics_listen_address == "0.0.0.0"
