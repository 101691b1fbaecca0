import asyncio

import pytest
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

from charonia.frontend.control.asgi_bridge import AsgiBridge, ClientGone
from charonia.testing.calls import FakeHttpCall


def serve(app, call, log):
    asyncio.run(AsgiBridge({"http": app}, log).serve(call))
    return call


def test_scope_follows_asgi(log):
    seen = {}

    async def app(scope, receive, send):
        seen.update(scope)
        seen["body"] = await receive()
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})
        seen["after"] = await receive()

    call = FakeHttpCall("PUT", "/a%20b%2Fc", "x=1&y=%20", b"hello", [(b"host", b"h")], client=("1.2.3.4", 5))
    serve(app, call, log)
    assert (seen["path"], seen["raw_path"], seen["query_string"]) == ("/a b/c", b"/a%20b%2Fc", b"x=1&y=%20")
    assert (seen["method"], seen["type"], seen["http_version"]) == ("PUT", "http", "1.1")
    assert (seen["headers"], seen["client"]) == ([(b"host", b"h")], ("1.2.3.4", 5))
    assert seen["body"] == {"type": "http.request", "body": b"hello", "more_body": False}
    assert seen["after"] == {"type": "http.disconnect"}
    assert (call.status, call.answer_headers) == (204, {"content-length": "0"})


def test_streams_chunk_by_chunk_without_a_length(log):
    async def chunks():
        for part in (b"one", b"", b"two"):
            yield part

    async def stream(request):
        return StreamingResponse(chunks(), media_type="text/event-stream")

    call = serve(Starlette(routes=[Route("/s", stream)]), FakeHttpCall("GET", "/s"), log)
    assert call.chunks == [(b"one", True), (b"two", True), (b"", False)]
    assert "content-length" not in call.answer_headers


def test_a_client_that_leaves_ends_the_stream(log):
    ended, call = [], FakeHttpCall()

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        try:
            while True:
                await send({"type": "http.response.body", "body": b"x", "more_body": True})
                call.leave()
        except ClientGone:
            ended.append(await receive())
            raise

    serve(app, call, log)
    assert call.chunks == [(b"x", True)]
    assert ended == [{"type": "http.request", "body": b"", "more_body": False}]
    assert not log.errors


def test_a_disconnect_wakes_who_waits_for_it(log):
    seen = []

    async def app(scope, receive, send):
        seen.append((await receive())["type"])
        seen.append((await receive())["type"])

    async def run():
        call, bridge = FakeHttpCall(), AsgiBridge({"http": app}, log)
        task = asyncio.create_task(bridge.serve(call))
        await turns()
        bridge.told([call.key])
        await turns()
        assert seen == ["http.request"]
        assert not task.done()
        call.leave()
        bridge.told([call.key + 1, call.key])
        await task
        bridge.told([call.key])  # too late to matter

    asyncio.run(run())
    assert seen == ["http.request", "http.disconnect"]


@pytest.mark.parametrize("leaves", [False, True])
def test_an_app_waits_for_a_slow_reader(log, leaves):
    sent = []

    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for piece in (b"1", b"2"):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            sent.append(piece)
        await send({"type": "http.response.body"})

    async def run():
        call, bridge = FakeHttpCall(is_behind=True), AsgiBridge({"http": app}, log)
        task = asyncio.create_task(bridge.serve(call))
        await turns()
        assert (call.answer, sent) == (b"1", [])
        call.is_behind = False
        if leaves:
            call.leave()
        bridge.told([call.key])
        await task
        assert (call.answer, sent) == ((b"1", [b"1"]) if leaves else (b"12", [b"1", b"2"]))

    asyncio.run(run())
    assert not log.errors


async def turns():
    """Let every task run until it waits."""
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.mark.parametrize("raises", [True, False])
def test_an_app_without_an_answer_is_a_500(log, raises):
    async def app(scope, receive, send):
        if raises:
            raise ValueError("boom")

    call = serve(app, FakeHttpCall(), log)
    assert call.status == 500
    assert call.answer.startswith(b'{"error":')
    assert call.answer_headers["content-length"] == str(len(call.answer))
    assert bool(log.errors) == raises


def test_an_app_that_fails_half_way_does_not_end_its_body(log):
    async def app(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"Content-Length", b"9")]})
        await send({"type": "http.response.body", "body": b"abc", "more_body": True})
        raise ValueError("boom")

    call = serve(app, FakeHttpCall(), log)
    assert call.chunks == [(b"abc", True)]
    assert call.answer_headers == {"content-length": "9"}
    assert "boom" in log.errors[0]


def test_framing_is_the_wires(log):
    async def app(scope, receive, send):
        headers = [(b"Transfer-Encoding", b"chunked"), (b"Connection", b"close"), (b"X-A", b"1"), (b"X-A", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"ab"})

    call = serve(app, FakeHttpCall(), log)
    assert call.answer_headers == {"x-a": "2", "content-length": "2"}


@pytest.mark.parametrize(
    "kinds",
    [["http.response.body"], ["http.response.start", "http.response.start"], ["websocket.accept"]],
)
def test_messages_in_a_wrong_order_are_the_apps_fault(log, kinds):
    async def app(scope, receive, send):
        for kind in kinds:
            await send({"type": kind, "status": 200, "headers": []})

    assert serve(app, FakeHttpCall(), log).status == 500
    assert "unexpected ASGI message" in log.errors[0]
