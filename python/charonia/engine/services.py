"""What the models of one server share."""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from charonia.cache.store import Store
from charonia.core.clock import Clock
from charonia.core.log import Log, SilentLog
from charonia.core.protocols import OnDeath, Submitter
from charonia.core.shelf import NewShelf, no_shelf
from charonia.observe.metrics_config import MetricsOptions
from charonia.pipelines.graph import NoModels, StepModels
from charonia.scheduling.build import NO_AIDS, SchedulingAids
from charonia.scheduling.errands import Errands
from charonia.scheduling.rate_limit import RateLimiter
from charonia.scheduling.timer import Timer


@dataclass(frozen=True, slots=True)
class ModelServices:
    """What every model of a server shares.

    Attributes:
        aids: what test suites steer.
        metrics: which latencies are counted.
        gpu_uuids: by device ("gpu:0"), of the GPUs whose instances count by themselves.
        stopping: set once the server stops; what takes long looks at it.
        directory: gives the models that serve now, for those that are made of others.
        errands: where threads do what they have taken upon them for other models.
        rate_limiter: has instances of all models wait for one another; None where none do.
        cache: where responses of models with response_cache are kept; None for nowhere.
        new_shelf: where the front end has those of one model version that it gives by itself.
    """

    clock: Clock
    timer: Timer
    submitter: Submitter
    on_death: OnDeath
    aids: SchedulingAids = NO_AIDS
    log: Log = field(default_factory=SilentLog)
    metrics: MetricsOptions = field(default_factory=MetricsOptions)
    gpu_uuids: Mapping[str, str] = field(default_factory=dict)
    stopping: threading.Event = field(default_factory=threading.Event)
    directory: Callable[[], StepModels] = NoModels
    errands: Errands = field(default_factory=Errands)
    rate_limiter: RateLimiter | None = None
    cache: Store | None = None
    new_shelf: NewShelf = no_shelf
