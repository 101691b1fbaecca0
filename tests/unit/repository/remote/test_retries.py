"""What is done when a store does not answer as it should."""

import pytest

from charonia.core.errors import InvalidArgumentError, UnavailableError
from charonia.repository.remote.credentials import Credentials
from charonia.repository.remote.retries import MissingError
from tests.unit.repository.remote.fake_store import FakeStore, steady

AWAY = ConnectionError("Could not connect to the endpoint")


def test_what_is_away_for_a_moment_is_tried_again():
    store = FakeStore({"bucket/models/m/1/x": b""})
    store.faults = [AWAY, TimeoutError(), OSError(16, "SlowDown")]
    assert len(steady(store).call("list it", lambda each: each.objects("bucket/models"))) == 1


def test_what_stays_away_is_told_with_host_tries_and_source_of_the_credentials():
    store = FakeStore()
    store.faults = [AWAY] * 99
    made = steady(store)
    with pytest.raises(UnavailableError) as raised:
        made.call("list it", lambda each: each.objects("bucket"))
    text = str(raised.value)
    assert "can't list it at host:1 with credentials from AWS_ACCESS_KEY_ID: tried 6 times in 6.2 s" in text
    assert "Could not connect to the endpoint" in text


def test_no_secret_is_in_an_error():
    store = FakeStore()
    store.faults = [PermissionError("the key AKIAEXAMPLE signed with wJalrSECRET is not known")] * 9
    made = steady(store)
    with pytest.raises(InvalidArgumentError, match="Check account credentials") as raised:
        made.call("list it", lambda each: each.objects("bucket"))
    assert "AKIAEXAMPLE" not in str(raised.value)
    assert "wJalrSECRET" not in str(raised.value) + made.lines.text


def test_a_refusal_is_not_tried_again_with_the_same_credentials():
    store = FakeStore()
    store.faults = [PermissionError("no"), AssertionError("asked again")]
    with pytest.raises(InvalidArgumentError):
        steady(store).call("list it", lambda each: each.objects("bucket"))
    assert len(store.faults) == 1


def test_new_credentials_are_used_after_a_refusal():
    refusing, good = FakeStore(), FakeStore({"bucket/x": b"1"})
    refusing.faults = [PermissionError("expired")] * 9
    opened = [(refusing, Credentials("file", {"key_id": "old"})), (good, Credentials("file", {"key_id": "new"}))]
    made = steady(None, reopen=lambda: opened.pop(0))
    assert len(made.call("list it", lambda each: each.objects("bucket"))) == 1


def test_what_the_library_finds_itself_is_looked_for_once_more():
    refusing, good = FakeStore(), FakeStore({"bucket/x": b"1"})
    refusing.faults = [PermissionError("expired")] * 9
    opened = [(refusing, Credentials("profile")), (good, Credentials("profile"))]
    made = steady(None, reopen=lambda: opened.pop(0))
    assert len(made.call("list it", lambda each: each.objects("bucket"))) == 1


def test_what_is_not_there_is_not_tried_again():
    with pytest.raises(MissingError, match="it does not exist"):
        steady(FakeStore()).call("list it", lambda each: each.objects("bucket"))


def test_a_stop_ends_the_waiting():
    store = FakeStore()
    store.faults = [AWAY] * 9
    made = steady(store)
    made._stopping.set()
    with pytest.raises(UnavailableError, match="tried 1 times"):
        made.call("list it", lambda each: each.objects("bucket"))
