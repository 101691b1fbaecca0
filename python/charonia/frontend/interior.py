"""What lies behind the doors."""

from dataclasses import dataclass

from charonia.core.log import Log
from charonia.core.protocols import OnDeath, Submitter
from charonia.engine.engine import ModelDirectory
from charonia.memory.regions import Regions
from charonia.observe.traces.tracer import Tracer


@dataclass(frozen=True, slots=True)
class Interior:
    """
    Attributes:
        submitter: takes requests.
        regions: the shared memory that clients have registered.
        tracer: says which calls are traced.
        on_death: told when a thread ends by a bug.
    """

    submitter: Submitter
    directory: ModelDirectory
    regions: Regions
    tracer: Tracer
    log: Log
    on_death: OnDeath
