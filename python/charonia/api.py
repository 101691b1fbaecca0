"""The server in your own process: numpy in, numpy out, no ports unless you ask for them.

with charonia.Server(model_repository="models") as server:
    outputs = server.model("m").infer(INPUT=array)
    outputs = await server.model("m", version=1).infer_async(INPUT=array)
    for outputs in server.model("llm").stream(PROMPT="Once upon a time"):
        ...
    with server.model("vad").sequence() as sequence:
        outputs = sequence.infer(AUDIO=chunk)
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from types import TracebackType
from typing import TYPE_CHECKING, Any

from charonia.api_model import Model
from charonia.core.errors import InvalidArgumentError, UnavailableError
from charonia.core.overrides import LoadOverrides
from charonia.core.readiness import all_ready
from charonia.core.request import ANY_VERSION
from charonia.frontend.control.mounts import NO_MOUNTS, check_mounts
from charonia.options import ServerOptions, is_unix_socket
from charonia.server import Server as ServerParts

if TYPE_CHECKING:
    from starlette.types import ASGIApp


AnyPath = str | PathLike[str]
_NO_FILES: Mapping[str, bytes] = {}
# In your own process the log shows warnings and errors, and a listener opens when its port is named.
_QUIET: Mapping[str, object] = {"log_info": False}
_LISTENERS = ("http", "grpc", "metrics")


class Server:
    """An embedded server; a context manager. Several may live in one process.

    Args:
        model_repository: one folder of models, or several.
        options: as the flags of `charonia serve`, in snake case (`strict_readiness=False`); one that may be repeated
            takes a text as on the command line, a list of them, or a dictionary of settings. `http_port`, `grpc_port`
            and `metrics_port` open a port (0: a free one), `http_address="unix:/run/charonia.sock"` opens a socket;
            without them there is none. `log_info=True` shows more.
        mount: ASGI apps of your own on the HTTP port, by the prefix of their paths: `{"/chat": app}`. An app sees the
            whole path, with its prefix as `root_path`, and gets no lifespan events.

    Raises:
        InvalidArgumentError: an unknown option, or one with a bad value; a prefix that is no path or the protocol's
            own; apps without an HTTP port.
    """

    def __init__(
        self,
        model_repository: AnyPath | Sequence[AnyPath],
        *,
        mount: Mapping[str, "ASGIApp"] = NO_MOUNTS,
        **options: Any,
    ) -> None:
        closed = {f"allow_{name}": _is_asked_for(name, options) for name in _LISTENERS}
        settings = {**_QUIET, **closed, **options, "model_repository": model_repository}
        check_mounts(mount)
        if mount and not _is_asked_for("http", options):
            raise InvalidArgumentError("mount needs the HTTP port: add http_port=8000, or http_port=0 for a free one")
        self._parts = _checked(ServerOptions.of(**settings), mount)
        self._started = False
        self._running = False

    def start(self) -> "Server":
        """Load all models. A server starts once.

        Raises:
            UnavailableError: it was started before; a port is taken; or a model failed to load, unless
                `exit_on_error=False`.
            InvalidArgumentError: a repository can't be read.
        """
        if self._started:
            raise UnavailableError("this server was started before, and a server starts once: make a new one")
        self._started = self._running = True
        try:
            self._parts.open()
            report = self._parts.load()
            if not report.complete and self._parts.options.exit_on_error:
                raise UnavailableError("\n".join(("failed to load all models:", *report.failed)))
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> bool:
        """Answer what was accepted and unload everything. False if something was still busy after the exit time-out."""
        if not self._running:
            return True
        self._running = False
        stopped = self._parts.stop()
        self._parts.log.close()
        return stopped

    def __enter__(self) -> "Server":
        return self.start()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def live(self) -> bool:
        return self._running and self._parts.live

    @property
    def ready(self) -> bool:
        """Waits for models that tell their readiness themselves, 5 seconds at most."""
        parts = self._parts
        if not (self._running and parts.ready and parts.strict):
            return self._running and parts.ready
        return all_ready(teller for version in parts.models.loaded() for teller in version.readiness_tellers)

    @property
    def ports(self) -> dict[str, int | None]:
        """The open ports of "http", "grpc" and "metrics"; None for those that are closed."""
        return self._parts.ports

    def reopen_logs(self) -> None:
        """Go on in new files, after those of `log_file` and `access_log` were renamed; for a handler of SIGHUP of your
        own, say. No line is lost. A file that can't be opened stays the old one, and the log says why. Not in the
        handler itself, which may interrupt a line: have a thread do it.
        """
        self._parts.reopen_logs()

    def load_model(self, name: str, *, config: str | None = None, files: Mapping[str, bytes] = _NO_FILES) -> None:
        """Load a model, or what of it has changed, while what served goes on; needs `model_control_mode="explicit"`.
        Loads what an ensemble needs too.

        Args:
            config: a configuration as JSON, in place of the model's file.
            files: contents by path, as `1/model.onnx`, in place of the model's folder; only with `config`.

        Raises:
            InvalidArgumentError: it can't be loaded; the message has the reason, and the model is as it was.
            NotFoundError: no repository has it.
            UnavailableError: the control mode does not allow it, or the server is stopping.
        """
        self._parts.control.load(name, LoadOverrides(config, files))

    def unload_model(self, name: str, *, unload_dependents: bool = False) -> None:
        """Take a model out of service, and the ensembles on it. What they accepted is still answered.

        An unknown model is no error.

        Args:
            unload_dependents: of an ensemble also the models that only it needs, and that nobody loaded by name.

        Raises:
            UnavailableError: the control mode does not allow it.
        """
        self._parts.control.unload(name, dependents=unload_dependents)

    def models(self) -> list["Model"]:
        """All loaded versions, by name and version."""
        return [Model(self._parts, each.name, each.version) for each in self._parts.models.loaded()]

    def model(self, name: str, version: int | None = None) -> "Model":
        """A handle on a model; without a version, on the one that serves by default at each call.

        Raises:
            NotFoundError: there is no such model or version.
        """
        model = Model(self._parts, name, ANY_VERSION if version is None else version)
        model.loaded  # noqa: B018 - an unknown name is better told here than at the first inference
        return model


def _checked(options: ServerOptions, mount: Mapping[str, "ASGIApp"]) -> ServerParts:
    options.check()
    return ServerParts(options, mounts=mount)


def _is_asked_for(listener: str, options: Mapping[str, Any]) -> bool:
    return f"{listener}_port" in options or is_unix_socket(str(options.get(f"{listener}_address", "")))
