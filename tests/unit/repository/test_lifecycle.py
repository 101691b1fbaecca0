"""States of model versions while they are loaded, switched, unloaded and given up."""

import threading
from collections.abc import Callable, Sequence

import pytest

from charonia.core.errors import CharoniaError, InvalidArgumentError, NotFoundError, UnavailableError
from charonia.core.log import SilentLog
from charonia.core.model_id import model_id
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
    assert not lifecycle.stop(0.0, 0.0)
    assert "stop" in other.calls


def test_a_version_that_can_not_be_stopped_keeps_no_other_from_it(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    class Broken(FakeVersion):
        def stop(self, timeout_s: float) -> bool:
            raise ZeroDivisionError

    lifecycle.load(plan(load=Broken) | plan(name="other"))
    other = lifecycle.find("other")
    lifecycle.unload("m")
    assert lifecycle.settle(PATIENCE_S)
    assert states(lifecycle) == {1: (State.UNAVAILABLE, "unloaded")}
    lifecycle.load(plan(load=Broken))
    assert not lifecycle.stop(PATIENCE_S, PATIENCE_S)
    assert "stop" in other.calls


def test_a_load_after_the_stop_is_refused(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    assert lifecycle.stop(PATIENCE_S, PATIENCE_S)
    assert lifecycle.load(plan()) == {"m": "not loaded: the server is stopping"}


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


def changing(*versions: int, load: Load = FakeVersion, **changes: Change) -> dict[str, FakePlan | CharoniaError]:
    """A plan for versions of `m`; `v2=Change.KEEP` says what version 2 needs when it serves."""
    made = FakePlan("m", versions, load)
    made.changes = {int(name.removeprefix("v")): change for name, change in changes.items()}
    made.updates = {version: FakeUpdate() for version, change in made.changes.items() if change is Change.UPDATE}
    return {"m": made}


def updates(plans: dict[str, FakePlan | CharoniaError]) -> dict[int, list[str]]:
    made = plans["m"]
    assert isinstance(made, FakePlan)
    return {version: update.calls for version, update in made.updates.items()}


def states(lifecycle: ModelLifecycle[FakeVersion], name: str = "m") -> dict[int | None, tuple[State | None, str]]:
    return {entry.version: (entry.state, entry.reason) for entry in lifecycle.directory.index() if entry.name == name}


def test_a_version_that_has_not_changed_is_not_touched(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    lifecycle.load(plan(1, 2))
    one, two = lifecycle.directory.versions("m")
    assert not lifecycle.load(changing(1, 2, v1=Change.KEEP))
    assert lifecycle.find("m", 1) is one
    assert lifecycle.find("m", 2) is not two
    assert lifecycle.settle(PATIENCE_S)
    assert (one.calls, two.calls) == ([], ["retire", "wait_idle", "stop"])


def test_a_load_without_any_change_loads_nothing(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    lifecycle.load(plan(1))
    before = lifecycle.find("m")
    assert not lifecycle.load(changing(1, v1=Change.KEEP))
    assert lifecycle.find("m") is before


def test_a_version_that_is_gone_is_unloaded_and_its_entry_stays(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    lifecycle.load(plan(1, 2))
    one = lifecycle.find("m", 1)
    assert not lifecycle.load(changing(2, v2=Change.KEEP))
    assert lifecycle.settle(PATIENCE_S)
    assert states(lifecycle) == {1: (State.UNAVAILABLE, "unloaded"), 2: (State.READY, "")}
    assert one.calls == ["retire", "wait_idle", "stop"]
    assert lifecycle.wanted_ready() == [True]
    with pytest.raises(UnavailableError, match="version 1 is not at ready state"):
        lifecycle.find("m", 1)


def test_an_update_is_made_when_all_versions_are_up(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    lifecycle.load(plan(1))
    one = lifecycle.find("m", 1)
    plans = changing(1, 2, v1=Change.UPDATE)
    assert not lifecycle.load(plans)
    assert updates(plans) == {1: ["commit"]}
    assert lifecycle.find("m", 1) is one
    assert lifecycle.find("m").version == 2


def test_an_update_is_not_made_when_another_version_fails(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    lifecycle.load(plan(1))
    one = lifecycle.find("m", 1)
    plans = changing(1, 2, v1=Change.UPDATE, load=fails("broken", 2))
    assert lifecycle.load(plans) == {"m": "version 2 is at UNAVAILABLE state: broken;"}
    assert updates(plans) == {1: ["discard"]}
    assert lifecycle.find("m") is one
    assert states(lifecycle) == {1: (State.READY, ""), 2: (State.UNAVAILABLE, "broken")}


def test_an_update_that_can_not_be_prepared_leaves_the_version_as_it_is(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    lifecycle.load(plan(1))
    plans = changing(1, v1=Change.UPDATE)
    made = plans["m"]
    assert isinstance(made, FakePlan)

    def refuse(version: int, served: FakeVersion) -> FakeUpdate:
        raise InvalidArgumentError("no GPU")

    made.update = refuse  # type: ignore[method-assign]
    assert lifecycle.load(plans) == {"m": "version 1 is at READY state: no GPU;"}
    assert states(lifecycle) == {1: (State.READY, "")}


def test_a_failed_load_says_why_each_time(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    for _ in range(2):
        assert lifecycle.load(plan(load=fails("broken"))) == {"m": "version 1 is at UNAVAILABLE state: broken;"}
        assert lifecycle.load({"other": InvalidArgumentError("line 3")}) == {"other": "line 3"}
    assert lifecycle.wanted_ready() == [False, False]


def test_a_failed_load_counts_until_the_model_is_unloaded(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    lifecycle.load(plan(load=fails("broken")))
    assert lifecycle.wanted_ready() == [False]
    lifecycle.unload("m")
    assert lifecycle.wanted_ready() == []
    lifecycle.unload("nobody knows it")


class Busy(FakeVersion):
    """Has a request in flight until `answered`."""

    answered: threading.Event

    def wait_idle(self, timeout_s: float) -> bool:
        return self.answered.wait(min(timeout_s, PATIENCE_S)) or not super().wait_idle(timeout_s)


def busy(name: str, version: int) -> FakeVersion:
    made = Busy(name, version)
    made.answered = threading.Event()
    return made


def test_a_model_whose_unload_still_waits_can_be_loaded_again(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    lifecycle.load(plan(load=busy))
    old = lifecycle.find("m")
    assert isinstance(old, Busy)
    lifecycle.unload("m")
    assert states(lifecycle) == {1: (State.UNLOADING, "")}
    assert not lifecycle.load(plan())
    assert states(lifecycle) == {1: (State.READY, "")}
    assert old in lifecycle.loaded()
    assert not lifecycle.settle(0)
    old.answered.set()
    assert lifecycle.settle(PATIENCE_S)
    assert states(lifecycle) == {1: (State.READY, "")}
    assert "stop" in old.calls
    assert old not in lifecycle.loaded()


def test_the_stop_does_not_wait_longer_than_it_may_for_what_is_unloading(
    lifecycle: ModelLifecycle[FakeVersion],
) -> None:
    lifecycle.load(plan(load=busy))
    old = lifecycle.find("m")
    assert isinstance(old, Busy)
    lifecycle.load(plan())
    assert not lifecycle.stop(0.0, 0.0)
    assert "stop" in old.calls
    old.answered.set()


def test_what_is_loaded_while_the_server_stops_is_stopped(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    entered, go_on = threading.Event(), threading.Event()
    loaded: list[FakeVersion] = []

    def slow(name: str, version: int) -> FakeVersion:
        entered.set()
        assert go_on.wait(PATIENCE_S)
        loaded.append(FakeVersion(name, version))
        return loaded[-1]

    thread = threading.Thread(target=lifecycle.load, args=(plan(load=slow),))
    thread.start()
    assert entered.wait(PATIENCE_S)
    lifecycle.abort()
    go_on.set()
    assert lifecycle.stop(PATIENCE_S, PATIENCE_S)
    thread.join(PATIENCE_S)
    assert loaded[0].calls == ["retire", "wait_idle", "stop"]
    assert states(lifecycle) == {1: (State.UNAVAILABLE, "not loaded: the server is stopping")}


def test_a_version_that_died_before_it_served_is_condemned(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    def dead(name: str, version: int) -> FakeVersion:
        made = FakeVersion(name, version)
        made.failure = "died 5 times within 60 s"
        return made

    lifecycle.load(plan(load=dead))
    assert states(lifecycle) == {1: (State.UNAVAILABLE, "died 5 times within 60 s")}


def test_a_model_that_is_gone_has_no_entry(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    lifecycle.load(plan())
    lifecycle.forget("m")
    assert lifecycle.settle(PATIENCE_S)
    assert states(lifecycle) == {}
    with pytest.raises(NotFoundError, match=r"unknown model: 'm' has no available versions \(it is not loaded\)"):
        lifecycle.find("m")
    assert not lifecycle.load(plan())
    assert states(lifecycle) == {1: (State.READY, "")}


def test_what_the_repositories_hold_is_known_anew_each_time(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    lifecycle.load(plan())
    lifecycle.know(["new"], {"twice": "in two of them"})
    assert [(entry.name, entry.state) for entry in lifecycle.directory.index()] == [
        ("m", State.READY),  # it serves, so it is not forgotten
        ("new", None),
        ("twice", State.UNAVAILABLE),
    ]
    lifecycle.know(["twice"], {})
    assert states(lifecycle, "twice") == {None: (None, "")}


def test_a_look_that_finds_nothing_new_is_not_announced() -> None:
    announced: list[int] = []
    made: ModelLifecycle[FakeVersion] = ModelLifecycle(SilentLog(), on_change=lambda: announced.append(1))

    def news(names: list[str], unusable: dict[str, str]) -> int:
        announced.clear()
        made.know(map(model_id, names), {model_id(name): why for name, why in unusable.items()})
        return len(announced)

    assert news([], {}) == 1, "that there is nothing is known from now on"
    assert news([], {}) == 0
    assert news(["a", "b"], {}) == 1
    assert news(["a", "b"], {}) == 0
    assert news(["a"], {"b": "in two of them"}) == 1
    assert news(["a"], {"b": "in two of them"}) == 0
    assert news(["a"], {}) == 1
    assert [entry.name for entry in made.directory.index()] == ["a"]


@pytest.mark.parametrize("threads", [1, 3])
def test_as_many_versions_load_side_by_side_as_there_are_threads(threads: int) -> None:
    together = threading.Barrier(threads)
    lock = threading.Lock()
    inside: list[int] = []
    most = [0]

    def load(name: str, version: int) -> FakeVersion:
        with lock:
            inside.append(version)
            most[0] = max(most[0], len(inside))
        together.wait(PATIENCE_S)
        with lock:
            inside.remove(version)
        return FakeVersion(name, version)

    made: ModelLifecycle[FakeVersion] = ModelLifecycle(SilentLog(), threads=threads)
    assert not made.load(plan(1, 2, 3, load=load) | plan(4, 5, 6, name="other", load=load))
    assert most == [threads]


def test_the_stop_does_not_wait_longer_than_it_may_for_a_load(lifecycle: ModelLifecycle[FakeVersion]) -> None:
    entered, go_on = threading.Event(), threading.Event()

    def hanging(name: str, version: int) -> FakeVersion:
        entered.set()
        assert go_on.wait(PATIENCE_S)
        return FakeVersion(name, version)

    lifecycle.load(plan(name="other"))
    other = lifecycle.find("other")
    thread = threading.Thread(target=lifecycle.load, args=(plan(load=hanging),))
    thread.start()
    assert entered.wait(PATIENCE_S)
    assert not lifecycle.stop(PATIENCE_S, 0.0)
    assert "stop" in other.calls
    go_on.set()
    thread.join(PATIENCE_S)


class Witness(SilentLog):
    """Notes with each line what the index says at that moment."""

    def __init__(self) -> None:
        self.states: dict[str, list[tuple[State | None, str]]] = {}
        self.index: Callable[[], Sequence[IndexEntry]] = tuple
        self.unloaded = threading.Event()

    def about(self, model: str) -> "Witness":
        return self

    def info(self, message: str) -> None:
        self.states[message] = [(entry.state, entry.reason) for entry in self.index()]
        if message.startswith("successfully unloaded"):
            self.unloaded.set()

    def error(self, message: str, below: str = "") -> None:
        self.info(message)


def test_what_the_log_tells_is_in_the_index_already() -> None:
    witness = Witness()
    lifecycle: ModelLifecycle[FakeVersion] = ModelLifecycle(witness)
    lifecycle.know(["m"], {})
    witness.index = lambda: lifecycle.directory.index()
    lifecycle.load({"m": InvalidArgumentError("no")})
    lifecycle.load(plan(load=fails("broken")))
    lifecycle.load(plan())
    lifecycle.unload("m")
    assert witness.unloaded.wait(PATIENCE_S)
    lifecycle.load(plan())
    lifecycle.condemn("m", lifecycle.find("m"), "dead")
    told = {line: states for line, states in witness.states.items() if not line.startswith("loading")}
    assert told == {
        "failed to load 'm': no": [(State.UNAVAILABLE, "no")],
        "failed to load 'm' version 1: broken": [(State.UNAVAILABLE, "broken")],
        "successfully loaded 'm'": [(State.READY, "")],
        "successfully unloaded 'm' version 1": [(State.UNAVAILABLE, "unloaded")],
        "model 'm' version 1 is UNAVAILABLE from now on: dead": [(State.UNAVAILABLE, "dead")],
    }
