"""The live page in a browser: it shows what is, goes on by itself, and sends what is typed into it."""

import re

import numpy as np
import pytest
from playwright.sync_api import expect

from tests.browser.pages import add, at, card, put, serving

HOSTILE = '<img src=x onerror="alert(1)">'


@pytest.fixture
def repository(tmp_path):
    add(tmp_path, "echo")
    return tmp_path


def test_models_their_states_and_reasons(page, repository):
    add(repository, "broken", 'backend: "onnxruntime"')
    with serving(repository, exit_on_error=False) as server:
        page.goto(at(server))
        expect(card(page, "echo").locator(".state")).to_have_text("READY")
        expect(card(page, "echo").locator(".kind")).to_have_text("identity · batches up to 4")
        expect(card(page, "echo").locator(".instances span")).to_have_count(3)
        expect(card(page, "broken").locator(".state")).to_have_text("UNAVAILABLE")
        expect(card(page, "broken").locator(".reason")).to_contain_text("model.onnx")
        expect(card(page, "broken").locator(".numbers")).to_be_hidden()
        expect(page.locator("#health")).to_have_text("live, not ready")


def test_numbers_come_by_themselves(page, repository):
    with serving(repository) as server:
        page.goto(at(server))
        echo = card(page, "echo")
        expect(echo.locator(".rate b")).to_have_text("0")
        model = server.model("echo")
        for _ in range(50):
            model.infer(INPUT0=np.zeros((3, 2), np.int64))
        expect(echo.locator(".p95")).to_have_text(re.compile(r"\d (µs|ms)"))
        expect(echo.locator(".bars div[data-rows='3']")).to_have_attribute("title", "50 executions of 3 rows")
        expect(echo.locator(".failures li")).to_have_text("none")
        expect(page.locator("#health")).to_have_text("ready")


@pytest.mark.parametrize("width", [360, 620, 800, 1150, 1200])
def test_numbers_of_every_length_have_room(page, repository, width):
    """The longest texts that are shown neither reach into the next column nor make the page wider than the window."""
    longest = {
        ".rate b": "99,999",
        ".p50": "99.9 ms",
        ".p95": "9.99 ms",
        ".p99": "99.9 ms",
        ".queue b": "999",
        ".queue i": "99.9 ms",
    }
    page.set_viewport_size({"width": width, "height": 800})
    with serving(repository) as server:
        page.goto(at(server))
        echo = card(page, "echo")
        expect(echo.locator(".p50")).to_be_visible()
        page.click("#pause")
        echo.locator(".each").evaluate("(each) => { each.hidden = false; }")
        for where, text in longest.items():
            echo.locator(where).evaluate("(element, text) => { element.textContent = text; }", text)
        too_wide = "(all) => all.filter((each) => each.scrollWidth > each.clientWidth).map((each) => each.textContent)"
        assert echo.locator("figure, figcaption, dl").evaluate_all(too_wide) == []
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_a_name_is_text_and_nothing_comes_from_elsewhere(page, repository):
    add(repository, HOSTILE.replace("/", ""))
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("dialog", lambda dialog: pytest.fail("a name was executed"))
    with serving(repository) as server:
        page.goto(at(server))
        expect(card(page, HOSTILE).locator(".name")).to_have_text(HOSTILE)
        assert page.locator("article img").count() == 0
        origin = at(server).removesuffix("/live")
        assert [url for url in asked if not url.startswith((origin, "data:"))] == []


def test_models_come_go_and_can_be_found(page, repository):
    add(repository, "other")
    with serving(repository, model_control_mode="explicit", load_model=["echo"]) as server:
        page.goto(at(server))
        expect(card(page, "other").locator(".state")).to_have_text("not loaded")
        server.load_model("other")
        expect(card(page, "other").locator(".state")).to_have_text("READY")
        page.fill("#filter", "ECH")
        expect(page.locator("article")).to_have_count(1)
        page.fill("#filter", "")
        server.unload_model("echo")
        expect(card(page, "echo").locator(".state")).to_have_text("UNAVAILABLE")


def test_a_server_that_has_gone(page, repository):
    with serving(repository) as server:
        page.goto(at(server))
        expect(page.locator("#health")).to_have_text("ready")
    expect(page.locator("#health")).to_have_text("no answer")


def test_pausing_keeps_what_is_shown(page, repository):
    with serving(repository) as server:
        page.goto(at(server))
        expect(page.locator("#health")).to_have_text("ready")
        page.click("#pause")
        page.evaluate("() => new Promise((done) => setTimeout(done, 0))")
        shown = page.text_content("#uptime")
        with page.expect_response("**/live/state"):
            page.click("#pause")
        expect(page.locator("#uptime")).not_to_have_text(shown)


def test_the_metrics_port_has_no_forms_and_names_the_page_that_has(page, repository):
    with serving(repository, allow_try_it=True) as server:
        page.goto(at(server))
        expect(page.locator("#try-link")).to_have_attribute("href", at(server, "http"))
        expect(card(page, "echo").locator(".try")).to_be_hidden()
        page.click("#try-link")
        expect(card(page, "echo").locator(".try button")).to_have_text("Try it")


def test_trying_a_model(page, repository):
    """Whole numbers reach it as they were typed, also those that JavaScript can't count."""
    with serving(repository, allow_try_it=True) as server:
        page.goto(at(server, "http"))
        echo = card(page, "echo")
        echo.locator(".try button").click()
        data = echo.get_by_title("elements as JSON, nested or flat")
        expect(data).to_have_value("[0,0]")
        data.fill("[[9223372036854775807, -1]]")
        echo.get_by_role("button", name="Send").click()
        expect(echo.locator("pre")).to_contain_text('"data":[9223372036854775807,-1]')
        echo.get_by_title("shape").fill("5, 2")
        echo.get_by_title("shape").dispatch_event("change")
        echo.get_by_role("button", name="Send").click()
        expect(echo.locator("pre .wrong")).to_contain_text("400: ")
        expect(echo.locator("pre .wrong")).to_contain_text("batch-size must be <= 4")


def test_restricted_calls_need_their_header_here_too(page, repository):
    restricted = ["inference,metadata,statistics:secret-key=open"]
    with serving(repository, allow_try_it=True, http_restricted_api=restricted) as server:
        page.goto(at(server, "http"))
        expect(page.locator("#health")).to_contain_text("This API is restricted, expecting header 'secret-key'")
        headers = page.get_by_title("headers that restricted calls need, one a line")
        put(headers, "secret-key: open")
        echo = card(page, "echo")
        echo.locator(".try button").click()
        echo.get_by_role("button", name="Send").click()
        expect(echo.locator("pre")).to_contain_text('"data":[0,0]')
        put(headers, "secret-key: wrong")
        echo.get_by_role("button", name="Send").click()
        expect(echo.locator("pre .wrong")).to_contain_text("403: This API is restricted")


def test_a_header_that_can_not_be_sent_can_be_corrected(page, repository):
    """Also once the page was loaded anew, with what it remembers and before it knows any model."""
    with serving(repository, allow_try_it=True, http_restricted_api=["model-config:secret-key=open"]) as server:
        page.goto(at(server, "http"))
        card(page, "echo").locator(".try button").click()
        headers = page.get_by_title("headers that restricted calls need, one a line")
        put(headers, "no name: open")
        expect(page.locator("#health")).to_have_text("no answer")
        page.reload()
        expect(headers).to_have_value("no name: open")
        put(headers, "secret-key: open")
        expect(page.locator("#health")).to_have_text("ready")
        card(page, "echo").locator(".try button").click()
        expect(card(page, "echo").get_by_role("button", name="Send")).to_be_visible()


def test_percentiles_are_those_of_the_counts(page, repository):
    """Against numpy, for latencies that the buckets hold: never further off than a bucket is wide."""
    latencies = np.random.default_rng(7).lognormal(1.0, 1.0, 5000)
    bounds = [float(bound) for bound in np.geomspace(0.01, 1000, 100)]
    counts = [int(count) for count in np.histogram(latencies, [0, *bounds, np.inf])[0]]
    with serving(repository) as server:
        page.goto(at(server))
        got = page.evaluate(
            "async ([counts, bounds]) => { const numbers = await import('/live/numbers.js');"
            "return [0.5, 0.95, 0.99].map((share) => numbers.percentile(counts, bounds, share)) }",
            [counts, bounds],
        )
    assert got == pytest.approx(np.percentile(latencies, [50, 95, 99]), rel=0.13)
