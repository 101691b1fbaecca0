"""Places of steps (`max_inflight_requests`) that are wanted by those for whom their holders wait."""

from charonia.pipelines.run import OPEN_STRANDS
from tests.unit.pipelines.test_streams import LIMITED, Reader, stream_of


def pour(ensemble, step, count=OPEN_STRANDS + 1):
    """Answer a decoupled step until there is no room, and listen; the list gets an item once there is some."""
    for _ in range(count):
        ensemble.reply(step, final=False, OUT=2)
    woken = []
    assert not step.flow.has_room()
    step.flow.on_room(lambda: woken.append(1))
    assert woken == []
    return woken


def nested(reader=None):
    """Two responses of a step of the outer ensemble, of which the later one comes first to an inner ensemble with one
    place, which its decoupled step holds: (both ensembles, the outer request, that step)."""
    outer = stream_of("many: IN>IN -> OUT>x\nmid: IN>x -> OUT>y\nnest: IN>y -> OUT>OUT", decoupled=("many", "nest"))
    inner = stream_of("pour: IN>IN -> OUT>OUT", decoupled=("pour",), options="max_inflight_requests: 1")
    request = outer.ask(flow=reader)
    many = outer.next("many")
    outer.reply(many, final=False, OUT=1)
    outer.reply(many, OUT=2)
    later = outer.asked[1]
    outer.asked.remove(later)
    outer.reply(later)
    inner.scheduler.enqueue(outer.next("nest"))
    return outer, inner, request, inner.next("pour")


def let_the_first_come(outer, inner):
    outer.answer("mid")
    inner.scheduler.enqueue(outer.next("nest"))


def test_a_place_in_a_nested_ensemble_is_given_up_for_the_one_that_all_wait_for():
    outer, inner, request, holder = nested()
    woken = pour(inner, holder)
    let_the_first_come(outer, inner)
    assert inner.asked == []  # the only place is taken
    assert (woken, holder.flow.has_room()) == ([1], True)
    inner.finish(holder)
    inner.answer("pour", OUT=1)
    assert outer.stream(request) == ["[1.0]"] + ["[2.0]"] * OPEN_STRANDS + ["[2.0]!"]


def test_whoever_asks_for_room_later_gets_it_too():
    outer, inner, _, holder = nested()
    pour(inner, holder)
    let_the_first_come(outer, inner)
    woken = []
    holder.flow.on_room(lambda: woken.append(1))
    assert woken == [1]


def test_a_reader_that_is_behind_is_waited_for_also_with_a_place_that_is_wanted():
    reader = Reader(room=False)
    outer, inner, _, holder = nested(reader)
    woken = pour(inner, holder)
    let_the_first_come(outer, inner)
    assert (woken, holder.flow.has_room()) == ([], False)
    reader.open()
    assert (woken, holder.flow.has_room()) == ([1], True)


def test_two_requests_that_hold_places_which_each_other_wants_come_to_an_end():
    steps = "many: IN>IN -> OUT>x\nmid: IN>x -> OUT>y\nfew: IN>y -> OUT>z\npour: IN>z -> OUT>OUT"
    ensemble = stream_of(steps, decoupled=("many", "few", "pour"), options=LIMITED)
    first = ensemble.ask()
    many = ensemble.next("many")
    for value in (1, 2):
        ensemble.reply(many, final=False, OUT=value)
    ensemble.reply(many, OUT=3)
    head = ensemble.next("mid")
    for _ in range(2):  # both places of `pour` go to what follows the head
        ensemble.answer("mid")
        ensemble.answer("few")
    pouring = [ensemble.next("pour") for _ in range(2)]
    woken = [pour(ensemble, pouring[0]), pour(ensemble, pouring[1], 1)]

    second = ensemble.ask()
    many = ensemble.next("many")
    ensemble.reply(many, final=False, OUT=4)
    ensemble.reply(many, OUT=5)
    few = []
    for _ in range(2):  # both places of `few` go to the other request, which waits for places of `pour`
        ensemble.answer("mid")
        few.append(ensemble.next("few"))
        ensemble.reply(few[-1], final=False)
    assert [step.flow.has_room() for step in few] == [False, False]
    ensemble.reply(head)  # it waits for a place of `few`
    assert ensemble.asked == []
    assert woken == [[1], [1]]
    assert [step.flow.has_room() for step in pouring] == [True, True]
    for step in pouring:
        ensemble.finish(step)
    assert [step.flow.has_room() for step in few] == [True, True]
    for step in few:
        ensemble.finish(step)
    while ensemble.asked:
        ensemble.answer()
    assert ensemble.stream(first)[0] == "[1.0]"
    assert ensemble.stream(second) == ["[4.0]", "[5.0]!"]
