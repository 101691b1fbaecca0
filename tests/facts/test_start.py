"""The rows of `start.toml`: the command is started with a row's flags, asked, ended, and its log read."""

import re
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from tests.facts.compare import check, differences
from tests.facts.layout import lay_out
from tests.facts.over_http import ask
from tests.facts.rows import HERE, Answer, Fact, read
from tests.system.conftest import PATIENCE_S, Serving

_FACTS = read(HERE / "data" / "start.toml").facts
_SIGTERM = 15
# As in the other rows: no process for each instance.
_INLINE = "--backend-config=python,execution=inline"
# A start waits for processes of its own about half of the time.
_AT_ONCE = 4


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The run of each row, started when first asked for, several at once."""
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        yield [pool.submit(_run, fact, tmp_path_factory.mktemp("start")) for fact in _FACTS]


@pytest.mark.parametrize("fact", [pytest.param(each, id=each.name) for each in _FACTS])
def test_the_command_does_as_recorded(fact: Fact, runs):
    got = runs[fact.number - 1].result()
    check(fact, got)


@pytest.mark.parametrize("fact", [pytest.param(each, id=each.name) for each in _FACTS if each.ours])
def test_what_is_said_to_differ_differs(fact: Fact):
    assert fact.because
    assert set(fact.ours) <= set(differences(fact.triton, fact.expected))


def _run(fact: Fact, folder: Path) -> Answer:
    places = {"models": _laid_out(folder / "models", fact.request.get("models", ["models/id"]))}
    places["second"] = _laid_out(folder / "second", fact.request.get("second", []))
    with closing(socket.create_server(("0.0.0.0", 0))) as held:
        flags = [flag.format(**places, taken=held.getsockname()[1]) for flag in fact.request["flags"]]
        serving = Serving(_INLINE, *flags)
        try:
            return _observed(fact, serving)
        except pytest.fail.Exception:  # it ended before it served
            return {"exit": serving.process.wait(PATIENCE_S)}
        finally:
            serving.close()


def _laid_out(folder: Path, models: list[str]) -> Path:
    folder.mkdir()
    for model in models:
        lay_out(HERE / model, folder / Path(model).name)
    return folder


def _observed(fact: Fact, serving: Serving) -> Answer:
    """The parts of the run that the row has."""
    found: Answer = {}
    if "http" in fact.request or "signal" in fact.request:
        port = int(serving.wait_for(r"Started HTTPService at \S+:(\d+)")[1])
        found["answers"] = [_shown(ask({"http": port}, {"http": line})) for line in fact.request.get("http", [])]
        for listener in (phrase for phrase in fact.expected.get("log", []) if phrase.startswith("Started")):
            if listener not in serving.text:  # a signal may be heard between two of these lines
                serving.wait_for(re.escape(listener))
        serving.signal(fact.request.get("signal", _SIGTERM))
    found["exit"] = serving.exit_code()
    found["log"] = _in_order(fact.expected.get("log", []), serving.text)
    return found


def _shown(answer: Answer) -> str:
    body = "error" if "error" in answer else answer["body"]
    if body.startswith('{"name"'):  # of the server's metadata, the name alone
        body = body.split(",")[0] + ",…}"
    return f"{answer['status']} {body}"


def _in_order(phrases: list[str], text: str) -> list[str]:
    """Those of `phrases` that follow one another in `text`."""
    found, at = [], 0
    for phrase in phrases:
        place = text.find(phrase, at)
        if place >= 0:
            found.append(phrase)
            at = place + len(phrase)
    return found
