"""TLS of the wire: who gets in, how a certificate is renewed, and what is said of files that are no good."""

import os
import shutil
import socket
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from tests.certificates import Authority, Identity, encrypted_key
from tests.wire.served import (
    PATIENCE_S,
    Served,
    grpc_value,
    json_body,
    message,
    read_all,
    read_answer,
    request,
    stub,
)

GOOD = request(json_body([1.5]))


@pytest.fixture(scope="module")
def identity(authority: Authority) -> Identity:
    return authority.server()


def files(identity: Identity, roots: Path | None = None) -> tuple[str, str, str | None]:
    return str(identity.certificate), str(identity.key), None if roots is None else str(roots)


def both(identity: Identity, roots: Path | None = None) -> dict[str, Any]:
    return {"http_tls": files(identity, roots), "grpc_tls": files(identity, roots)}


@pytest.fixture
def served(authority: Authority, identity: Identity) -> Iterator[Served]:
    with Served(**both(identity)) as running:
        yield running


@pytest.fixture
def mutual(authority: Authority, identity: Identity) -> Iterator[Served]:
    with Served(**both(identity, authority.root)) as running:
        yield running


def connect(served: Served, context: ssl.SSLContext, door: str = "http") -> ssl.SSLSocket:
    return context.wrap_socket(served.connect(door), server_hostname="localhost")


def channel(served: Served, authority: Authority, client: Identity | None = None) -> grpc.Channel:
    certificate, key = client.read() if client is not None else (None, None)
    credentials = grpc.ssl_channel_credentials(authority.root.read_bytes(), key, certificate)
    return grpc.secure_channel(
        f"localhost:{served.wire.ports['grpc']}", credentials, [("grpc.use_local_subchannel_pool", 1)]
    )


def test_both_doors_answer(served: Served, authority: Authority) -> None:
    with connect(served, authority.trusting()) as http, channel(served, authority) as calls:
        for _ in range(3):
            http.sendall(GOOD)
            assert b"1.5" in read_answer(http)
        assert grpc_value(stub(calls).ModelInfer(message([2.5]), timeout=PATIENCE_S)) == 2.5


@pytest.mark.parametrize(
    ("door", "offered", "chosen"),
    [
        ("http", ("h2", "http/1.1"), "h2"),
        ("http", ("http/1.1",), "http/1.1"),
        ("http", (), None),
        ("grpc", ("h2",), "h2"),
    ],
)
def test_what_is_spoken(
    served: Served, authority: Authority, door: str, offered: tuple[str, ...], chosen: str | None
) -> None:
    with connect(served, authority.trusting(None, *offered), door) as connection:
        assert connection.selected_alpn_protocol() == chosen


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_versions(served: Served, authority: Authority, version: ssl.TLSVersion) -> None:
    context = authority.trusting()
    context.minimum_version = context.maximum_version = version
    with connect(served, context) as connection:
        connection.sendall(GOOD)
        assert b"1.5" in read_answer(connection)


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_old_versions_are_refused(served: Served, authority: Authority) -> None:
    context = authority.trusting()
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_1
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.raises((ssl.SSLError, ConnectionError)):
        connect(served, context)


def test_a_client_in_the_clear_is_turned_away(served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(GOOD)
        assert b"HTTP" not in read_all(connection)


def test_a_body_of_megabytes_goes_through(served: Served, authority: Authority) -> None:
    body = json_body([float(number) for number in range(200_000)])
    with connect(served, authority.trusting()) as connection:
        connection.sendall(request(body))
        assert b"199999.0" in read_answer(connection)


def test_a_client_with_a_certificate_gets_in(mutual: Served, authority: Authority) -> None:
    client = authority.client()
    with connect(mutual, authority.trusting(client)) as http, channel(mutual, authority, client) as calls:
        http.sendall(GOOD)
        assert b"1.5" in read_answer(http)
        assert grpc_value(stub(calls).ModelInfer(message([2.5]), timeout=PATIENCE_S)) == 2.5


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_each_connection_shows_its_certificate_anew(
    mutual: Served, served: Served, authority: Authority, version: ssl.TLSVersion
) -> None:
    """A session that goes on is not asked for one, and would outlive it."""
    for running, goes_on in ((served, True), (mutual, False)):
        context = authority.trusting(authority.client())
        context.minimum_version = context.maximum_version = version
        with connect(running, context) as first:
            first.sendall(GOOD)
            assert b"1.5" in read_answer(first)
            session = first.session
        again = context.wrap_socket(running.connect(), server_hostname="localhost", session=session)
        with again as second:
            second.sendall(GOOD)
            assert b"1.5" in read_answer(second)
            assert second.session_reused == goes_on


def ask(served: Served, authority: Authority, client: Identity | None) -> bytes:
    """With TLS 1.3 a client learns only when it reads that its certificate was refused."""
    return exchanged(served, authority.trusting(client))


def exchanged(served: Served, context: ssl.SSLContext) -> bytes:
    with connect(served, context) as connection:
        connection.sendall(GOOD)
        return read_answer(connection)


def test_others_do_not(mutual: Served, authority: Authority, tmp_path: Path) -> None:
    stranger = Authority(tmp_path, "stranger").client()
    for client in (None, stranger):
        with pytest.raises((ssl.SSLError, ConnectionError)):
            ask(mutual, authority, client)
        with channel(mutual, authority, client) as calls, pytest.raises(grpc.RpcError) as failed:
            stub(calls).ModelInfer(message([2.5]), timeout=PATIENCE_S)
        assert failed.value.code() is grpc.StatusCode.UNAVAILABLE


@pytest.fixture(scope="module")
def old(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Identity]:
    """Of X.509 version 1; "stranger" is signed by another root of the same name."""
    folder = tmp_path_factory.mktemp("old")

    def openssl(line: str) -> None:
        subprocess.run(["openssl", *line.split()], cwd=folder, check=True, capture_output=True)

    for root in ("root", "other"):
        openssl(f"req -new -x509 -nodes -newkey rsa:2048 -days 2 -subj /CN=old -keyout {root}.key -out {root}")
    made = {"root": Identity(folder / "root", folder / "root.key")}
    for name, root, days in (
        ("server", "root", 2),
        ("client", "root", 2),
        ("expired", "root", -1),
        ("stranger", "other", 2),
    ):
        kind = "ec -pkeyopt ec_paramgen_curve:P-256" if name == "client" else "rsa:2048"
        openssl(f"req -new -nodes -newkey {kind} -subj /CN=localhost -keyout {name}.key -out {name}.csr")
        signer = f"-CA {root} -CAkey {root}.key -set_serial 1"
        openssl(f"x509 -req -in {name}.csr {signer} -days {days} -out {name}.pem")
        made[name] = Identity(folder / f"{name}.pem", folder / f"{name}.key")
    return made


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs the command openssl")
@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_certificates_of_version_1(old: dict[str, Identity], version: ssl.TLSVersion) -> None:
    roots = old["root"].certificate
    with Served(http_tls=files(old["server"], roots)) as running:
        for name, welcome in (("client", True), ("server", True), ("expired", False), ("stranger", False)):
            context = ssl.create_default_context(cafile=str(roots))
            context.check_hostname = False
            context.minimum_version = context.maximum_version = version
            context.load_cert_chain(old[name].certificate, old[name].key)
            if welcome:
                assert b"1.5" in exchanged(running, context)
            else:
                with pytest.raises((ssl.SSLError, ConnectionError)):
                    exchanged(running, context)


def test_one_who_says_nothing_is_sent_away(identity: Identity, authority: Authority) -> None:
    with Served(**both(identity), read_timeout_ms=200, idle_timeout_ms=0) as running:
        silent = [running.connect(door) for door in ("http", "grpc") for _ in range(8)]
        for connection in silent:
            assert read_all(connection) == b""
            connection.close()
        with connect(running, authority.trusting()) as connection:
            connection.sendall(GOOD)
            assert b"1.5" in read_answer(connection)


def test_half_open_handshakes_give_way(identity: Identity, authority: Authority) -> None:
    with Served(**both(identity), max_connections=8) as running:
        silent = [running.connect() for _ in range(20)]
        with connect(running, authority.trusting()) as connection:
            connection.sendall(GOOD)
            assert b"1.5" in read_answer(connection)
        for each in silent:
            each.close()


def test_a_stop_does_not_wait_for_a_handshake(identity: Identity) -> None:
    running = Served(**both(identity))
    with running.connect() as silent:
        assert running.wire.shutdown(PATIENCE_S)
        assert read_all(silent) == b""


def serial(served: Served, authority: Authority) -> int:
    with connect(served, authority.trusting()) as connection:
        return int(connection.getpeercert()["serialNumber"], 16)  # type: ignore[index,arg-type]


def replace(old: Path, new: Path) -> None:
    """As renewals do: at once, with another time."""
    moved = old.with_suffix(".new")
    shutil.copy(new, moved)
    os.replace(moved, old)


def test_a_certificate_is_renewed_without_a_restart(authority: Authority) -> None:
    used, renewed = authority.server("used"), authority.server("renewed")
    with Served(http_tls=files(used)) as running:
        before = serial(running, authority)
        with connect(running, authority.trusting()) as old:
            replace(used.certificate, renewed.certificate)
            replace(used.key, renewed.key)
            _wait_for(running, "notice", "renewed certificate", authority)
            assert serial(running, authority) != before
            old.sendall(GOOD)
            assert b"1.5" in read_answer(old)


def test_a_renewal_that_is_no_good_changes_nothing(authority: Authority) -> None:
    used, renewed = authority.server("kept"), authority.server("half")
    with Served(http_tls=files(used)) as running:
        before = serial(running, authority)
        replace(used.certificate, renewed.certificate)
        said = _wait_for(running, "error", "can't be used together", authority)
        assert str(used.certificate) in said
        assert serial(running, authority) == before
        replace(used.key, renewed.key)
        _wait_for(running, "notice", "renewed certificate", authority)
        assert serial(running, authority) != before


def _wait_for(served: Served, weight: str, phrase: str, authority: Authority) -> str:
    """Connect again and again, since files are looked at when a connection begins, until the wire says it."""
    for _ in range(2000):
        serial(served, authority)
        for said, text in served.wire.take_remarks(0.01):
            if said == weight and phrase in text:
                return text
    raise AssertionError(f"nobody said '{phrase}'")


def test_a_failed_handshake_is_told(served: Served) -> None:
    with served.connect() as connection:
        connection.sendall(GOOD)
        read_all(connection)
    assert any("handshake failed" in text for _, text in served.wire.take_remarks(PATIENCE_S))


def _refusal(**settings: Any) -> str:
    with pytest.raises(ValueError) as refused, Served(**settings):
        pass
    return str(refused.value)


def test_files_that_are_no_good_are_named(authority: Authority, identity: Identity, tmp_path: Path) -> None:
    missing, text = tmp_path / "missing.pem", tmp_path / "text.pem"
    text.write_text("no certificate")
    other = authority.server("other")
    encrypted = encrypted_key(tmp_path / "encrypted.pem")
    broken = tmp_path / "broken.pem"
    broken.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    for pair, words in (
        (Identity(missing, identity.key), (str(missing), "No such file")),
        (Identity(identity.certificate, missing), (str(missing), "No such file")),
        (Identity(tmp_path, identity.key), (str(tmp_path), "no file")),
        (Identity(text, identity.key), (str(text), "no certificate")),
        (Identity(identity.certificate, text), (str(text), "no private key")),
        (Identity(identity.certificate, encrypted), (str(encrypted), "encrypted")),
        (Identity(identity.certificate, other.key), (str(other.key), "can't be used together")),
        (Identity(broken, identity.key), (str(broken),)),
    ):
        for settings in ({"http_tls": files(pair)}, {"grpc_tls": files(pair)}):
            said = _refusal(**settings)
            assert "TLS of" in said
            assert all(word in said for word in words), said
    said = _refusal(grpc_tls=files(identity, text))
    assert str(text) in said
    assert said.startswith("TLS of GRPC")


def test_a_unix_socket_may_be_under_tls(authority: Authority, identity: Identity, tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with Served(http_address=f"unix:{path}", http_tls=files(identity)):
        plain = socket.socket(socket.AF_UNIX)
        plain.settimeout(PATIENCE_S)
        plain.connect(str(path))
        with authority.trusting().wrap_socket(plain, server_hostname="localhost") as connection:
            connection.sendall(GOOD)
            assert b"1.5" in read_answer(connection)
