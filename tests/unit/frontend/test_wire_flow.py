from charonia.frontend.wire_flow import WireFlow


class Call:
    has_room = True


def test_listeners_are_called_once_when_there_is_room():
    call, heard = Call(), []
    flow = WireFlow(call)
    flow.on_room(lambda: heard.append("at once"))
    assert heard == ["at once"]
    call.has_room = False
    assert not flow.has_room()
    flow.on_room(lambda: heard.append("one"))
    flow.on_room(lambda: heard.append("two"))
    flow.told()
    assert heard == ["at once"], "news of a call that has no room yet"
    call.has_room = True
    assert flow.has_room()
    flow.told()
    flow.told()
    assert heard == ["at once", "one", "two"]
