"""All handlers of one server together, as the front ends take them."""

from dataclasses import dataclass

from charonia.control.configuration import Configuration
from charonia.control.health import Health
from charonia.control.live import Live
from charonia.control.logging import Logging
from charonia.control.metadata import Metadata
from charonia.control.protocols import LogControl, ModelControl, Models, ServerView
from charonia.control.repository import Repository
from charonia.control.shared_memory import SharedMemory
from charonia.control.statistics import Statistics
from charonia.control.tracing import Tracing
from charonia.core.clock import Clock


@dataclass(frozen=True, slots=True)
class Handlers:
    """What the HTTP routes and the RPCs call: one attribute for each subject."""

    health: Health
    metadata: Metadata
    configuration: Configuration
    statistics: Statistics
    repository: Repository
    logging: Logging
    shared_memory: SharedMemory
    tracing: Tracing
    live: Live

    @classmethod
    def over(
        cls,
        server: ServerView,
        models: Models,
        control: ModelControl,
        log: LogControl,
        shared_memory: SharedMemory,
        tracing: Tracing,
        clock: Clock,
    ) -> "Handlers":
        return cls(
            health=Health(server, models),
            metadata=Metadata(server, models),
            configuration=Configuration(models),
            statistics=Statistics(models),
            repository=Repository(models, control),
            logging=Logging(log, models),
            shared_memory=shared_memory,
            tracing=tracing,
            live=Live(server, models, clock),
        )
