"""One server, put together: what is made, in which order it starts, and in which order it stops.

start  ports open (live, not ready) → models load, each served as soon as it is up → ready
stop   exiting is published → no new connections, no new calls → accepted calls are answered, up to the limit →
       what is left is failed, instances end, models are unloaded → answers are flushed → threads end
"""

import os
import threading
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from charonia import __version__
from charonia.agents.registry import AgentRegistry
from charonia.backends.base import ServerFacts
from charonia.backends.gpus import visible_gpus
from charonia.cache.opening import open_store
from charonia.cache.settings import parse_cache_config
from charonia.condition import Condition
from charonia.config.rate_limits import given_resources
from charonia.control.metadata import EXTENSIONS, TRITON_VERSION
from charonia.control.tracing import Tracing
from charonia.core.clock import MonotonicClock
from charonia.core.model_id import ModelId
from charonia.core.protocols import Bell
from charonia.core.shelf import Shelf
from charonia.draining import drain
from charonia.engine.engine import Engine
from charonia.engine.inproc import InprocClient
from charonia.engine.model import ModelVersion
from charonia.engine.services import ModelServices
from charonia.frontend.machine import half_of_memory
from charonia.logs import open_log
from charonia.memory.regions import Regions
from charonia.metering import measures_gpus, open_metrics
from charonia.observe.load_report import FAMILY, load_report
from charonia.observe.log import ServerLog
from charonia.observe.metrics_config import parse_metrics_config
from charonia.observe.traces.config import parse_trace_config
from charonia.observe.traces.tracer import Tracer
from charonia.option_remarks import option_remarks
from charonia.options import ServerOptions
from charonia.repository.agent_runs import AgentRuns
from charonia.repository.all_repositories import AllRepositories, CloudParts
from charonia.repository.calls import ModelCalls
from charonia.repository.control import RepositoryControl
from charonia.repository.directory import Directory
from charonia.repository.inspection import InspectionParts
from charonia.repository.lifecycle import ModelLifecycle
from charonia.repository.loader import ModelLoader
from charonia.repository.model_load import LoaderParts
from charonia.repository.operations import ModelOperations
from charonia.repository.polling import Poller, RepositoryPolling
from charonia.repository.remarks import Remarks
from charonia.repository.source import ModelSource
from charonia.repository.start import StartParts, StartReport, load_at_start
from charonia.repository.tables import start_tables
from charonia.scheduling.bell import ConditionBell
from charonia.scheduling.rate_limit import RateLimiter
from charonia.scheduling.timer import Timer
from charonia.testing_aids import TestingAids

if TYPE_CHECKING:
    from charonia.frontend.control.mounts import Mounts
    from charonia.frontend.doors import Doors

# What unloading may take after the last request is answered; it waits for a model's own finalize.
_UNLOAD_S = 10.0
# What the last traces have to reach their file or their collector.
_TRACES_S = 5.0
# A look at a repository ends soon, unless its file system hangs.
_POLL_S = 1.0


class Server:
    """A server in this process. `open`, then `load`, later `stop`; nothing here touches signals.

    Args:
        options: checked by `ServerOptions.check`.
        log: where it writes; by default as the options say.
        mounts: ASGI apps on the HTTP port, by prefix, as `check_mounts` lets them pass.

    Raises:
        InvalidArgumentError: the log file can't be opened.
        UnavailableError: the response cache that it is to use can't be reached.
    """

    def __init__(self, options: ServerOptions, log: ServerLog | None = None, mounts: "Mounts | None" = None) -> None:
        self.options = options
        self._mounts = mounts or {}
        self.log = log or open_log(options)
        self.clock = MonotonicClock()
        self._gpus = visible_gpus()
        self._metrics_options = parse_metrics_config(options.metrics_config)
        self._cache = open_store(parse_cache_config(options.cache_config), self.log)
        self._condition = Condition(lambda: self.lifecycle, self.log, strict=options.strict_readiness)
        self._exiting = self._condition.exiting
        self._stop_by = 0.0
        self._doors: Doors | None = None
        self._testing_aids = TestingAids.of(os.environ)
        self._timer = Timer(self.clock, lambda error: self._condition.died("timer", error))
        self.lifecycle: ModelLifecycle[ModelVersion] = ModelLifecycle(
            self.log,
            threads=options.model_load_thread_count,
            retries=options.model_load_retry_count,
            before_change=self._condition.changing,
            on_change=self._condition.changed,
        )
        self.tracer = Tracer(parse_trace_config(options.trace_config), self.clock, self.log, self._condition.died)
        self.engine = Engine(self.lifecycle)
        self.client = InprocClient(self.engine, self.clock)
        self.metrics = open_metrics(
            options,
            self._metrics_options,
            [gpu.uuid for gpu in self._gpus],
            lambda: self.models.loaded(),
            lambda: self.ready,
            self.clock,
            self.log,
            self._cache,
        )
        self._calls = ModelCalls(lambda: self.control, lambda: self.models)
        self._inspection = InspectionParts.of(options, [gpu.index for gpu in self._gpus], self._facts())
        self._agents = AgentRuns(AgentRegistry(Path(options.repoagent_directory)))
        self._loader = ModelLoader(self._loader_parts())
        self._remarks = Remarks(self.log)
        self._operations = ModelOperations(self.lifecycle, self._loader, self.log)
        self._poller: Poller | None = None
        self.regions = Regions(self.log, options.allow_client_shm, copies_bytes=half_of_memory())
        self._repositories = AllRepositories(
            options.model_repository,
            CloudParts(os.environ, self.clock, self._exiting, self.log),
            namespacing=options.model_namespacing,
        )
        self.control = RepositoryControl(
            options.model_control_mode, self._repositories, self._operations, self.lifecycle, self.log
        )

    def _loader_parts(self) -> LoaderParts:
        options = self.options
        base = self._inspection
        return LoaderParts(
            base.registry,
            base.devices,
            base.facts,
            base.config,
            services=ModelServices(
                self.clock,
                self._timer,
                self.engine,
                self._condition.died,
                aids=self._testing_aids.scheduling,
                log=self.log,
                metrics=self._metrics_options,
                gpu_uuids={f"gpu:{gpu.index}": gpu.uuid for gpu in self._gpus} if measures_gpus(options) else {},
                stopping=self._exiting,
                directory=lambda: self.models,
                rate_limiter=self._rate_limiter(),
                cache=self._cache,
                new_shelf=self._new_shelf,
            ),
            new_bell=self._new_bell,
            models=lambda: self.models,
            calls=self._calls,
            on_health=self._on_health,
            agents=self._agents,
        )

    def _rate_limiter(self) -> RateLimiter | None:
        if self.options.rate_limit == "off":
            return None
        return RateLimiter(given_resources(self.options.rate_limit_resource), self.log)

    def _facts(self) -> ServerFacts:
        options = self.options
        return ServerFacts(
            log_verbose=options.log_verbose,
            exit_timeout_s=float(options.exit_timeout_secs),
            auto_complete=not options.disable_auto_complete_config,
            log=self.log,
            custom_metrics=self.metrics.custom,
            submitter=self.engine,
            models=self._calls,
        )

    @property
    def id(self) -> str:
        return self.options.id

    @property
    def live(self) -> bool:
        return self._condition.live

    @property
    def ready(self) -> bool:
        return self._condition.ready

    @property
    def strict(self) -> bool:
        return self._condition.strict

    @property
    def models(self) -> Directory[ModelVersion]:
        """The models at this moment."""
        return self.lifecycle.directory

    @property
    def ports(self) -> dict[str, int | None]:
        """The real ports of "http", "grpc" and "metrics", None where there is no listener."""
        return self._doors.ports if self._doors is not None else {"http": None, "grpc": None, "metrics": None}

    def open(self) -> None:
        """Start the threads and open the ports: from now on live, not ready, and inference is told that models load.

        Raises:
            UnavailableError: a port is taken.
        """
        self._timer.start()
        self.tracer.start()
        if not _wants_network(self.options):
            return
        from charonia.control.handlers import Handlers
        from charonia.control.shared_memory import SharedMemory
        from charonia.frontend.doors import Doors
        from charonia.frontend.interior import Interior
        from charonia.frontend.wire_options import wire_options

        aids = self._testing_aids
        settings = wire_options(self.options, f"charonia/{__version__}", aids.grpc_answer_delay_s, mounts=self._mounts)
        interior = Interior(self.engine, self.lifecycle, self.regions, self.tracer, self.log, self._condition.died)
        doors = Doors(self.options, settings, interior, environment=os.environ)
        self.metrics.custom.watch(FAMILY, lambda samples: doors.publish_load(load_report(samples)))
        doors.open()
        self.log.on_verbosity(doors.follow_log)
        self._doors = doors
        self._condition.publish_at(doors)
        handlers = Handlers.over(
            self,
            lambda: self.models,
            self.control,
            self.log,
            SharedMemory(self.regions),
            Tracing(self.tracer, lambda: self.models),
            self.clock,
        )
        doors.serve_control(handlers, self.metrics.text, self._mounts)

    def load(self) -> StartReport:
        """Load the models of the start, and wait until each has been tried. Logs the tables.

        Raises:
            InvalidArgumentError: a repository can't be read.
        """
        for remark in option_remarks(self.options):
            self.log.warning(remark)
        parts = StartParts(self.options, self._repositories, self.lifecycle, self._operations, self.log, self._remarks)
        sources, report = load_at_start(parts)
        self._condition.loaded()
        self._log_tables()
        if self._doors is not None and (report.complete or not self.options.exit_on_error):
            self._doors.choose_default_model({each.name for each in self.models.loaded()})
        if self.options.model_control_mode == "poll" and self.options.repository_poll_secs:
            self._start_polling(sources)
        return report

    def _start_polling(self, sources: dict[ModelId, ModelSource]) -> None:
        options = self.options
        polling = RepositoryPolling(
            self._repositories,
            self._operations,
            self.lifecycle,
            self.log,
            self._remarks,
            options.model_load_thread_count,
        )
        polling.begin(sources)
        self._poller = Poller(polling, options.repository_poll_secs, self._condition.died)
        if not self._exiting.is_set():
            self._poller.start()

    def _log_tables(self) -> None:
        for text in start_tables(
            self.options,
            self._inspection.registry,
            self.models.index(),
            TRITON_VERSION,
            EXTENSIONS,
            self._agents.registry.made(),
        ):
            self.log.table(text)

    def log_listeners(self) -> None:
        """One line for each open port, with the real number."""
        for name, address, port in self._doors.listeners() if self._doors is not None else ():
            shown = f"[{address}]" if ":" in address and port is not None else address
            self.log.info(f"Started {name} at {shown if port is None else f'{shown}:{port}'}")

    def reopen_logs(self) -> None:
        """Go on in new files, after those of `log_file` and `access_log` were renamed. Any thread may call it."""
        self.log.reopen()
        if self._doors is not None:
            self._doors.reopen_access_log()

    def announce_stop(self) -> None:
        """Not ready from now on, but everything is served as before: who sends requests finds others meanwhile."""
        self._condition.leaving()

    def begin_stop(self) -> None:
        """The first half of a stop, which takes no time: nothing new is accepted any more. Ends loads soon."""
        if self._exiting.is_set():
            return
        self._exiting.set()
        self._stop_by = monotonic() + self.options.exit_timeout_secs
        if self._poller is not None:
            self._poller.stop()
        self._operations.stop()
        self.lifecycle.abort()
        self._condition.publish()
        if self._doors is not None:
            self._doors.refuse()

    def stop(self) -> bool:
        """Stop in order. False if something was still busy after the exit time-out, or did not end."""
        self.begin_stop()
        in_time = drain(
            self.lifecycle.loaded(), self._doors, self.log, self.time_to_stop_s, self.options.exit_timeout_secs
        )
        unloading_s = max(_UNLOAD_S, self.time_to_stop_s) if in_time else 0.0
        self._operations.announce_end()
        unloaded = self.lifecycle.stop(unloading_s, self.time_to_stop_s)
        flushed = self._doors.close(in_time and unloaded) if self._doors is not None else True
        self.tracer.close(max(_TRACES_S, self.time_to_stop_s))
        self.client.close()
        if self._cache is not None:
            self._cache.close()
        self._timer.stop()
        if self._poller is not None:
            self._poller.join(_POLL_S)
        self.control.close()
        self._operations.close()
        self._agents.close(self.log)
        self._repositories.close()
        self.regions.clear()
        if unloaded:
            self._inspection.registry.close()
        else:
            self._inspection.registry.kill()
        return in_time and unloaded and flushed

    @property
    def time_to_stop_s(self) -> float:
        """What is left of the exit time-out, which counts from the beginning of the stop."""
        return max(0.0, self._stop_by - monotonic())

    def _new_shelf(self) -> Shelf | None:
        return self._doors.new_shelf() if self._doors is not None else None

    def _new_bell(self) -> tuple[Bell, int]:
        return self._doors.new_bell() if self._doors is not None else (ConditionBell(), 0)

    def _on_health(self, model: ModelVersion) -> None:
        """An instance went down, came back, or was given up. To give up its model takes a thread that may wait."""
        failure = model.failure
        if failure is None:
            self._condition.publish()
        else:
            threading.Thread(target=self._condemn, args=(model, failure), name="condemn", daemon=True).start()

    def _condemn(self, model: ModelVersion, reason: str) -> None:
        try:
            self.lifecycle.condemn(model.id, model, reason)
        except BaseException as error:
            self._condition.died("condemn", error)

    def stay_up_dead(self, reason: str) -> None:
        """The start failed and `--exit-on-error=false` keeps the server up: it answers, and is not live."""
        self._condition.start_failed(reason)


def _wants_network(options: ServerOptions) -> bool:
    gateways = options.allow_sagemaker or options.allow_vertex_ai
    return options.allow_http or options.allow_grpc or options.allow_metrics or gateways
