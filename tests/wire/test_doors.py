"""The network side of a server, put together over the real wire."""

import threading

from charonia.core.log import SilentLog
from charonia.core.request import InferRequest
from charonia.frontend.doors import Doors
from charonia.frontend.interior import Interior
from charonia.frontend.wire_options import wire_options
from charonia.memory.regions import Regions
from charonia.observe.traces.config import parse_trace_config
from charonia.observe.traces.tracer import Tracer
from charonia.options import ServerOptions
from charonia.repository.directory import Directory
from charonia.testing.clock import ManualClock

PATIENCE_S = 20.0
"""Nothing waits this long when it works."""


class NoEngine:
    def submit(self, request: InferRequest) -> None:
        raise AssertionError("nobody asked for anything")


def made_doors(deaths: list[BaseException]) -> Doors:
    options = ServerOptions(http_address="127.0.0.1", http_port=0, allow_grpc=False, allow_metrics=False)
    models: Directory[object] = Directory({}, scanned=True)  # type: ignore[type-var]
    log = SilentLog()

    def on_death(name: str, error: BaseException) -> None:
        deaths.append(error)

    tracer = Tracer(parse_trace_config((), {}), ManualClock(), log, on_death)
    interior = Interior(NoEngine(), models, Regions(log), tracer, log, on_death)  # type: ignore[arg-type]
    return Doors(options, wire_options(options, "test"), interior)


def test_the_ingress_ends_with_the_wire_and_not_with_the_models_that_unload_after_it() -> None:
    deaths: list[BaseException] = []
    doors = made_doors(deaths)
    before = set(threading.enumerate())
    doors.open()
    (ingress,) = [thread for thread in set(threading.enumerate()) - before if thread.name == "ingress"]
    bell, _ = doors.new_bell()
    doors.refuse()
    assert doors.drain(PATIENCE_S)
    ingress.join(PATIENCE_S)
    assert not ingress.is_alive()
    # An instance still hears its scheduler: there may be work that did not come by the network.
    bell.ring()
    assert bell.wait(PATIENCE_S) == ()
    assert doors.close(in_time=True)
    assert deaths == []
