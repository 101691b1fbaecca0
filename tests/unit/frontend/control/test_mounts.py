import asyncio

import pytest

from charonia.core.errors import InvalidArgumentError
from charonia.frontend.control.asgi_bridge import AsgiBridge
from charonia.frontend.control.mounts import MountedApps, check_mounts
from charonia.testing.calls import FakeHttpCall


def app(name):
    async def answer(scope, receive, send):
        await send({"type": "http.response.start", "status": 200})
        await send({"type": "http.response.body", "body": f"{name} {scope['root_path']} {scope['path']}".encode()})

    return answer


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("/v2", "ours  /v2"),
        ("/abc", "ours  /abc"),
        ("/a/x%20y", "a /a /a/x y"),
        ("/a", "a /a /a"),
        ("/%61/x", "a /a /a/x"),
        ("/a/b", "ab /a/b /a/b"),
        ("/a/bc", "a /a /a/bc"),
    ],
)
def test_apps_get_their_prefix_only(log, path, answer):
    bridge = AsgiBridge({"http": MountedApps(app("ours"), {"/a": app("a"), "/a/b": app("ab")})}, log)
    call = FakeHttpCall("GET", path)
    asyncio.run(bridge.serve(call))
    assert call.answer.decode() == answer


@pytest.mark.parametrize("prefix", ["", "/", "a", "/a/", "//a", "/a//b", "/v2", "/v2/mine"])
def test_a_prefix_that_can_not_be(prefix):
    with pytest.raises(InvalidArgumentError, match="mount: ") as caught:
        check_mounts({"/fine": app("fine"), prefix: app("a")})
    assert f"'{prefix}'" in str(caught.value)


def test_other_prefixes():
    check_mounts({"/a": app("a"), "/a/b": app("b"), "/v20": app("c")})
