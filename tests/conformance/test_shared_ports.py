"""Which ports and addresses two doors, or two servers, may share."""

import http.client
import json

import pytest
import tritonclient.grpc as grpcclient

from charonia.api import Server
from charonia.core.errors import UnavailableError

NEW_CONNECTIONS = 64  # the system chooses a server for each; that all go to the same one is next to impossible
OWN_CONNECTION = [("grpc.use_local_subchannel_pool", 1)]


def http_name(port, address="127.0.0.1"):
    connection = http.client.HTTPConnection(address, port, timeout=10)
    connection.request("GET", "/v2")
    name = json.loads(connection.getresponse().read())["name"]
    connection.close()
    return name


def grpc_name(port, address="127.0.0.1"):
    with grpcclient.InferenceServerClient(f"{address}:{port}", channel_args=OWN_CONNECTION) as client:
        return client.get_server_metadata(client_timeout=10).name


@pytest.mark.parametrize(("door", "name"), [("http", http_name), ("grpc", grpc_name)])
def test_servers_that_want_to_share_a_port_share_its_connections(tmp_path, door, name):
    shared = {f"reuse_{door}_port": True}
    with Server(tmp_path, id="first", **shared, **{f"{door}_port": 0}) as first:
        port = first.ports[door]
        with Server(tmp_path, id="second", **shared, **{f"{door}_port": port}):
            assert {name(port) for _ in range(NEW_CONNECTIONS)} == {"first", "second"}
        assert {name(port) for _ in range(NEW_CONNECTIONS)} == {"first"}


@pytest.mark.parametrize(("door", "service"), [("http", "HTTP"), ("grpc", "GRPC"), ("metrics", "Metrics")])
def test_a_taken_port_is_named(tmp_path, door, service):
    with Server(tmp_path, **{f"{door}_port": 0}) as first:
        port = first.ports[door]
        socket = f"Socket '0.0.0.0:{port}' already in use"
        said = f"failed to start {service} service: Unavailable - {socket}; .*--{door}-port"
        with pytest.raises(UnavailableError, match=said):
            Server(tmp_path, **{f"{door}_port": port}).start()


def test_doors_at_different_addresses_may_have_the_same_port(tmp_path):
    with Server(tmp_path, http_address="127.0.0.1", http_port=0) as first:
        port = first.ports["http"]
    addresses = {"http_address": "127.0.0.1", "grpc_address": "127.0.0.2", "metrics_address": "127.0.0.3"}
    with Server(tmp_path, id="both", http_port=port, grpc_port=port, metrics_port=port, **addresses):
        assert (http_name(port), grpc_name(port, "127.0.0.2")) == ("both", "both")
        connection = http.client.HTTPConnection("127.0.0.3", port, timeout=10)
        connection.request("GET", "/metrics")
        assert connection.getresponse().status == 200
        connection.close()
