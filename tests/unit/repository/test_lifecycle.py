"""States of model versions while they are loaded, switched, unloaded and given up."""

import threading
from collections.abc import Callable, Sequence

import pytest

from charonia.core.errors import CharoniaError, InvalidArgumentError, NotFoundError, UnavailableError
from charonia.core.log import SilentLog
from charonia.repository.lifecycle import ModelLifecycle
from charonia.repository.plans import Change
from charonia.repository.states import IndexEntry, State


class FakeVersion:
    def __init__(self, name: str, version: int) -> None:
        self.name, self.version = name, version
        self.live_instances = 1
        self.failure: str | None = None
        self.calls: list[str] = []
        self.stops_in_time = True

    def retire(self) -> None:
        self.calls.append("retire")

    def wait_idle(self, timeout_s: float) -> bool:
        self.calls.append("wait_idle")
        return True

    def stop(self, timeout_s: float) -> bool:
        self.calls.append("stop")
        return self.stops_in_time


class FakeUpdate:
    def __init__(self) -> None:
        self.calls: list[str] = []

    def commit(self) -> None:
        self.calls.append("commit")

    def discard(self) -> None:
        self.calls.append("discard")


class FakePlan:
    def __init__(self, name: str, versions: Sequence[int], load: Callable[[str, int], FakeVersion]) -> None:
        self.name, self.versions, self._load = name, versions, load
        self.changes: dict[int, Change] = {}
        self.updates: dict[int, FakeUpdate] = {}

    def change(self, version: int, served: FakeVersion) -> Change:
        return self.changes.get(version, Change.LOAD)

    def load(self, version: int) -> FakeVersion:
        return self._load(self.name, version)

    def update(self, version: int, served: FakeVersion) -> FakeUpdate:
        return self.updates[version]


Load = Callable[[str, int], FakeVersion]
PATIENCE_S = 10.0


def plan(*versions: int, name: str = "m", load: Load = FakeVersion) -> dict[str, FakePlan | CharoniaError]:
    return {name: FakePlan(name, versions or (1,), load)}


@pytest.fixture
def lifecycle() -> ModelLifecycle[FakeVersion]:
    made: ModelLifecycle[FakeVersion] = ModelLifecycle(SilentLog(), threads=2)
    made.know(["m", "other"], {})
    return made


def fails(reason: str, *versions: int) -> Callable[[str, int], FakeVersion]:
    def load(name: str, version: int) -> FakeVersion:
        if not versions or version in versions:
            raise InvalidArgumentError(reason)
        return FakeVersion(name, version)

    return load


def test_before_anything_is_known_every_model_is_loading() -> None:
    fresh: ModelLifecycle[FakeVersion] = ModelLifecycle(SilentLog())
    with pytest.raises(UnavailableError, match="loading"):
        fresh.find("m", -1)


def test_a_very_long_name_does_not_push_the_reason_out_of_the_message(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    with pytest.raises(NotFoundError, match="xx…' is not found") as raised:
        lifecycle.find("x" * 100_000, -1)
    assert len(str(raised.value)) < 400


def test_a_loaded_model_serves_its_latest_version_by_default(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    assert not lifecycle.load(plan(1, 3))
    assert lifecycle.find("m").version == 3
    assert lifecycle.find("m", 1).version == 1
    assert [each.version for each in lifecycle.directory.versions("m")] == [1, 3]


def test_unknown_models_and_versions_are_not_found(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    lifecycle.load(plan(1))
    with pytest.raises(NotFoundError, match="unknown model: 'nope'"):
        lifecycle.find("nope")
    with pytest.raises(NotFoundError, match="version 7 is not found"):
        lifecycle.find("m", 7)


def test_while_loading_the_index_says_so_and_requests_are_told(
    lifecycle: ModelLifecycle[FakeVersion],
) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def slow(name: str, version: int) -> FakeVersion:
        entered.set()
        assert go_on.wait(10)
        return FakeVersion(name, version)

    thread = threading.Thread(target=lifecycle.load, args=(plan(1, load=slow),))
    thread.start()
    assert entered.wait(10)
    try:
        assert IndexEntry("m", 1, State.LOADING) in lifecycle.directory.index()
        assert lifecycle.wanted_ready() == [False]
        for version in (-1, 1):
            with pytest.raises(UnavailableError, match="loading"):
                lifecycle.find("m", version)
    finally:
        go_on.set()
        thread.join(10)
    assert lifecycle.wanted_ready() == [True]


def test_a_failing_model_is_unavailable_with_its_reason_and_others_serve(
    lifecycle: ModelLifecycle[FakeVersion],
) -> None:
    assert lifecycle.load(plan(load=fails("no such file")) | plan(name="other"))
    assert list(lifecycle.directory.index()) == [
        IndexEntry("m", 1, State.UNAVAILABLE, "no such file"),
        IndexEntry("other", 1, State.READY),
    ]
    assert lifecycle.find("other").name == "other"
    with pytest.raises(NotFoundError, match=r"no available versions.*no such file"):
        lifecycle.find("m")
    assert sorted(lifecycle.wanted_ready()) == [False, True]


def test_a_model_without_a_plan_is_unavailable_without_a_version(
    lifecycle: ModelLifecycle[FakeVersion],
) -> None:
    assert lifecycle.load({"m": InvalidArgumentError("config.pbtxt:3:1: unknown field")})
    assert lifecycle.directory.index()[0] == IndexEntry("m", None, State.UNAVAILABLE, "config.pbtxt:3:1: unknown field")
    with pytest.raises(NotFoundError, match="unknown field"):
        lifecycle.find("m")


def test_an_exception_of_another_kind_is_a_reason_too(
    lifecycle: ModelLifecycle[FakeVersion],
) -> None:
    def bug(name: str, version: int) -> FakeVersion:
        raise ZeroDivisionError("oops")

    assert lifecycle.load(plan(load=bug))
    assert lifecycle.directory.index()[0].reason == "ZeroDivisionError: oops"


def test_when_one_version_fails_none_is_served(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    loaded: list[FakeVersion] = []

    def load(name: str, version: int) -> FakeVersion:
        made = fails("broken", 2)(name, version)
        loaded.append(made)
        return made

    assert lifecycle.load(plan(1, 2, load=load))
    states = {entry.version: entry.state for entry in lifecycle.directory.index() if entry.name == "m"}
    assert states == {1: State.UNAVAILABLE, 2: State.UNAVAILABLE}
    assert lifecycle.settle(PATIENCE_S)
    assert [made.calls for made in loaded] == [["retire", "wait_idle", "stop"]]


def test_a_reload_switches_over_and_then_stops_the_old_version(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    lifecycle.load(plan(1))
    old = lifecycle.find("m")
    lifecycle.load(plan(1))
    assert lifecycle.find("m") is not old
    assert lifecycle.settle(PATIENCE_S)
    assert old.calls == ["retire", "wait_idle", "stop"]


def test_a_failed_reload_leaves_the_old_version_serving(
    lifecycle: ModelLifecycle[FakeVersion],
) -> None:
    lifecycle.load(plan(1))
    old = lifecycle.find("m")
    assert lifecycle.load(plan(load=fails("broken")))
    assert lifecycle.find("m") is old
    assert not old.calls


def test_retries() -> None:
    attempts: list[int] = []

    def load(name: str, version: int) -> FakeVersion:
        attempts.append(version)
        if len(attempts) < 3:
            raise UnavailableError("not yet")
        return FakeVersion(name, version)

    retrying: ModelLifecycle[FakeVersion] = ModelLifecycle(SilentLog(), retries=2)
    assert not retrying.load(plan(load=load))
    assert len(attempts) == 3


def test_unload_settles_what_was_accepted_and_leaves_a_reason(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    lifecycle.load(plan(1))
    version = lifecycle.find("m")
    lifecycle.unload("m")
    assert lifecycle.settle(PATIENCE_S)
    assert version.calls == ["retire", "wait_idle", "stop"]
    assert lifecycle.directory.index()[0] == IndexEntry("m", 1, State.UNAVAILABLE, "unloaded")
    assert lifecycle.wanted_ready() == []


def test_stop_says_when_a_version_is_still_busy(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    lifecycle.load(plan() | plan(name="other"))
    lifecycle.find("m").stops_in_time = False
    other = lifecycle.find("other")
    assert not lifecycle.stop(0.0)
    assert "stop" in other.calls


def test_after_abort_nothing_more_is_loaded(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    lifecycle.abort()
    assert lifecycle.load(plan())
    assert lifecycle.directory.index()[0].state is State.UNAVAILABLE


def test_a_condemned_version_is_unavailable_with_the_reason(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    lifecycle.load(plan(1))
    version = lifecycle.find("m")
    lifecycle.condemn("m", version, "died 5 times within 60 s")
    assert lifecycle.directory.index()[0] == IndexEntry("m", 1, State.UNAVAILABLE, "died 5 times within 60 s")
    assert version.calls == ["retire", "stop"]
    assert lifecycle.wanted_ready() == [False]


def test_a_version_that_was_replaced_is_not_condemned(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    lifecycle.load(plan(1))
    old = lifecycle.find("m")
    lifecycle.load(plan(1))
    lifecycle.condemn("m", old, "died 5 times within 60 s")
    assert lifecycle.directory.index()[0] == IndexEntry("m", 1, State.READY)


def test_readiness_follows_the_instances(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    lifecycle.load(plan(1))
    lifecycle.find("m").live_instances = 0
    assert lifecycle.wanted_ready() == [False]
    assert lifecycle.find("m").version == 1


def test_every_change_is_announced() -> None:
    seen: list[list[State | None]] = []
    made: ModelLifecycle[FakeVersion] = ModelLifecycle(
        SilentLog(), on_change=lambda: seen.append([e.state for e in made.directory.index()])
    )
    made.load(plan())
    made.unload("m")
    assert made.settle(PATIENCE_S)
    flat = [states[0] for states in seen if states]
    assert [state for at, state in enumerate(flat) if at == 0 or flat[at - 1] != state] == [
        State.LOADING,
        State.READY,
        State.UNLOADING,
        State.UNAVAILABLE,
    ]
