"""The trace settings of the server and of its models."""

from dataclasses import dataclass, field

from charonia.control.protocols import Models
from charonia.core.errors import NotFoundError, UnsupportedError
from charonia.core.text import shown
from charonia.observe.traces.setting import TraceValues
from charonia.observe.traces.settings import WHOLE_SERVER, TraceChange
from charonia.observe.traces.tracer import Tracer


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """A request to change settings.

    Attributes:
        names_file: it says something of the file.
        mode: the mode that it names, None for none.
    """

    change: TraceChange = field(default_factory=TraceChange)
    names_file: bool = False
    mode: str | None = None


class Tracing:
    """Reads and changes settings; the model is WHOLE_SERVER for those of the server. A change that is refused changes
    nothing."""

    def __init__(self, tracer: Tracer, models: Models) -> None:
        self._tracer = tracer
        self._models = models
        self.config = tracer.config

    def settings(self, model: str = WHOLE_SERVER) -> TraceValues:
        """What counts now. Raises as `ModelDirectory.find` for a model that is not loaded."""
        self._check_loaded(model)
        return self._tracer.settings.of(model).values

    def update(self, model: str, request: TraceRequest) -> TraceValues:
        """Change settings; gives those that count afterwards.

        Raises:
            UnsupportedError: file and mode can't be changed over the network.
            InvalidArgumentError: nothing could be traced by what comes of it.
            NotFoundError, UnavailableError: the model is not loaded.
        """
        self._check_loaded(model)
        if request.names_file:
            raise UnsupportedError("trace file location can not be updated through network protocol")
        if request.mode is not None and request.mode != self.config.mode:
            raise UnsupportedError(
                f"trace mode can not be updated through network protocol: it is '{self.config.mode}', and the request "
                f"says '{shown(request.mode)}'"
            )
        self._tracer.settings.update(model, request.change)
        return self.settings(model)

    def _check_loaded(self, model: str) -> None:
        if model == WHOLE_SERVER:
            return
        try:
            self._models().find(model)
        except NotFoundError as error:  # clients know it by these words, which are not quite those of other routes
            raise NotFoundError(f"Request for unknown model : {shown(model)}; {error}") from None
