"""Doors at Unix sockets: clients find them by gRPC's own names, and their files come and go with the server."""

import socket
import sys
from pathlib import Path

import grpc
import pytest

from tests.wire.served import PATIENCE_S, Served, grpc_value, json_body, message, read_answer, request, stub


def ask(address: str | bytes) -> bytes:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(address)
        connection.sendall(request(json_body([1.5])))
        return read_answer(connection)


def call(target: str) -> float:
    with grpc.insecure_channel(target) as channel:
        return grpc_value(stub(channel).ModelInfer(message([2.5]), timeout=PATIENCE_S))


@pytest.mark.parametrize("form", ["unix:{}", "unix://{}"])
def test_both_doors(tmp_path: Path, form: str) -> None:
    http, calls = tmp_path / "http", tmp_path / "grpc"
    with Served(http_address=form.format(http), grpc_address=form.format(calls)) as served:
        assert (served.wire.ports["http"], served.wire.ports["grpc"]) == (None, None)
        assert b"1.5" in ask(str(http))
        assert call(form.format(calls)) == 2.5
    assert not http.exists()
    assert not calls.exists()


@pytest.mark.skipif(sys.platform != "linux", reason="abstract names are Linux's own")
def test_abstract_names(tmp_path: Path) -> None:
    name = f"charonia{tmp_path}"
    with Served(http_address=f"unix-abstract:{name}-h", grpc_address=f"unix-abstract:{name}-g"):
        assert b"1.5" in ask(f"\0{name}-h".encode())
        assert call(f"unix-abstract:{name}-g") == 2.5


def test_what_a_killed_server_left_is_no_hindrance(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    left = socket.socket(socket.AF_UNIX)
    left.bind(str(path))
    left.close()
    with Served(http_address=f"unix:{path}"):
        assert b"1.5" in ask(str(path))


def test_one_that_serves_stays(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with Served(http_address=f"unix:{path}"):
        with pytest.raises(OSError, match="already in use"):
            Served(http_address=f"unix:{path}")
        assert b"1.5" in ask(str(path))


def test_what_can_not_be_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(OSError, match="no socket"):
        Served(http_address=f"unix:{file}")
    assert file.read_text() == "mine"
    with pytest.raises(OSError, match="No such file"):
        Served(http_address=f"unix:{tmp_path}/missing/socket")
    with pytest.raises(ValueError, match="cannot listen on unix:"):
        Served(http_address=f"unix:{tmp_path}/{'x' * 200}")


def test_the_file_goes_when_no_more_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    served = Served(http_address=f"unix:{path}")
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(PATIENCE_S)
        connection.connect(str(path))
        connection.sendall(request(json_body([1.5])))
        assert b"1.5" in read_answer(connection)
        served.close()
    assert not path.exists()


def test_both_addresses_of_a_name() -> None:
    with Served(http_address="localhost") as served:
        found = {
            info[4] for info in socket.getaddrinfo("localhost", served.wire.ports["http"], type=socket.SOCK_STREAM)
        }
        for address in found:
            with socket.create_connection(address[:2], timeout=PATIENCE_S) as connection:
                connection.sendall(request(json_body([1.5])))
                assert b"1.5" in read_answer(connection)


def test_ipv6() -> None:
    with Served(http_address="::1", grpc_address="::1") as served:
        assert call(f"[::1]:{served.wire.ports['grpc']}") == 2.5
        with pytest.raises(OSError, match=r"\[::1\]:"):
            Served(http_address="::1", http_port=served.wire.ports["http"])
