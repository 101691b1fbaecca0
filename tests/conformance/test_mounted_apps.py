"""An ASGI app of the user's own beside the protocol, on the same port."""

import http.client

import numpy as np
import pytest

from charonia.api import Server
from charonia.core.errors import InvalidArgumentError
from tests.models import onnx_models


class Doubling:
    """Adds a number to itself by the model of the server that it is mounted in."""

    server: Server

    async def __call__(self, scope, receive, send):
        number = np.full((1, 16), float(scope["path"].removeprefix(scope["root_path"] + "/")), np.float32)
        outputs = await self.server.model("add_sub").infer_async(INPUT0=number, INPUT1=number)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        await send({"type": "http.response.body", "body": str(outputs["OUTPUT0"][0, 0]).encode()})


@pytest.fixture
def ask(tmp_path):
    onnx_models.save(onnx_models.add_sub(), tmp_path, "add_sub", 1)
    app = Doubling()
    with Server(tmp_path, http_port=0, mount={"/double": app}) as server:
        app.server = server
        connection = http.client.HTTPConnection("127.0.0.1", server.ports["http"], timeout=10)

        def get(path):
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()

        yield get
        connection.close()


def test_an_app_and_the_protocol_share_the_port(ask):
    assert ask("/double/21") == (200, "42.0")
    assert ask("/v2/models/add_sub/ready") == (200, "")
    assert ask("/doubles")[0] == 404


def test_a_failing_app_is_answered_for(ask):
    assert ask("/double/no-number")[0] == 500
    assert ask("/double/1") == (200, "2.0")


def test_mount_needs_a_path_of_its_own_and_the_port(tmp_path):
    with pytest.raises(InvalidArgumentError, match="'/v2/mine' is one of the server's own paths"):
        Server(tmp_path, http_port=0, mount={"/v2/mine": Doubling()})
    with pytest.raises(InvalidArgumentError, match="http_port"):
        Server(tmp_path, mount={"/mine": Doubling()})
