"""W3C Trace Context."""

import pytest

from charonia.observe.traces.context import context_of_headers, new_context

PARENT = "00-0af7651916cd43dd8448eb211c12666c-b7ad6b7169242424-01"


def test_a_context_goes_on():
    caller = context_of_headers(PARENT, "a=1,b=2")
    child = caller.child()
    assert child.trace_id == 0x0AF7651916CD43DD8448EB211C12666C
    assert child.span_id != caller.span_id
    assert caller.headers() == {"traceparent": PARENT, "tracestate": "a=1,b=2"}
    assert child.headers()["traceparent"].startswith("00-0af7651916cd43dd8448eb211c12666c-")


def test_a_caller_that_does_not_sample_is_a_caller():
    assert context_of_headers(PARENT[:-1] + "0", None) is not None


def test_new_ones_differ():
    first, second = new_context(), new_context()
    assert first.trace_id != second.trace_id
    assert context_of_headers(first.headers()["traceparent"], None) == first


def test_later_versions_may_say_more():
    assert context_of_headers("01" + PARENT[2:] + "-more", None) is not None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "00",
        PARENT.upper(),
        PARENT[:-3],
        PARENT + "-more",
        "ff" + PARENT[2:],
        "00-" + "0" * 32 + PARENT[35:],
        PARENT[:36] + "0" * 16 + "-01",
        "zz" + PARENT[2:],
        PARENT.replace("0af7", "0ag7"),
    ],
)
def test_what_is_none_is_passed_over(text):
    assert context_of_headers(text, None) is None


@pytest.mark.parametrize("state", ["x" * 513, "a=1\r\nb: 2"])
def test_a_state_that_can_not_be_passed_on_is_dropped(state):
    assert context_of_headers(PARENT, state).headers() == {"traceparent": PARENT}
