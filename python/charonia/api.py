"""The server in your own process: numpy in, numpy out, no ports unless you ask for them.

with charonia.Server(model_repository="models") as server:
    outputs = server.model("m").infer(INPUT=array)
    outputs = await server.model("m", version=1).infer_async(INPUT=array)
"""

import asyncio
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from charonia.control.metadata import Metadata, ModelMetadata
from charonia.control.statistics import Statistics, StatisticsRecord
from charonia.core.datatypes import BYTES, DATATYPES
from charonia.core.errors import CharoniaError, InvalidArgumentError, UnavailableError
from charonia.core.overrides import LoadOverrides
from charonia.core.request import ANY_VERSION, NO_PARAMETERS, Parameter
from charonia.core.tensor import Tensor
from charonia.engine.inproc import InferResult, ResultFuture
from charonia.engine.model import ModelVersion
from charonia.frontend.mounts import NO_MOUNTS, check_mounts
from charonia.options import ServerOptions
from charonia.server import Server as ServerParts

if TYPE_CHECKING:
    from starlette.types import ASGIApp

    from charonia.config.schema import ModelConfig

AnyPath = str | PathLike[str]
Array = NDArray[Any]
Outputs = dict[str, Array]
_NO_INPUTS: Mapping[str, ArrayLike] = {}
_NO_FILES: Mapping[str, bytes] = {}
# In your own process the log shows warnings and errors, and a listener opens when its port is named.
_QUIET: Mapping[str, object] = {"log_info": False}
_LISTENERS = ("http", "grpc", "metrics")


class Server:
    """An embedded server; a context manager. Several may live in one process.

    Args:
        model_repository: one folder of models, or several.
        options: as the flags of `charonia serve`, in snake case (`strict_readiness=False`). `http_port`, `grpc_port`
            and `metrics_port` open a port (0: a free one); without them there is none. `log_info=True` shows more.
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
        paths = [model_repository] if isinstance(model_repository, str | PathLike) else list(model_repository)
        closed = {f"allow_{name}": f"{name}_port" in options for name in _LISTENERS}
        settings = {**_QUIET, **closed, **options, "model_repository": [fspath(path) for path in paths]}
        check_mounts(mount)
        if mount and "http_port" not in options:
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
        return self._running and self._parts.ready

    @property
    def ports(self) -> dict[str, int | None]:
        """The open ports of "http", "grpc" and "metrics"; None for those that are closed."""
        return self._parts.ports

    def load_model(self, name: str, *, config: str | None = None, files: Mapping[str, bytes] = _NO_FILES) -> None:
        """Load a model, or what of it has changed, while what served goes on; needs `model_control_mode="explicit"`.

        Args:
            config: a configuration as JSON, in place of the model's file.
            files: contents by path, as `1/model.onnx`, in place of the model's folder; only with `config`.

        Raises:
            InvalidArgumentError: it can't be loaded; the message has the reason, and the model is as it was.
            NotFoundError: no repository has it.
            UnavailableError: the control mode does not allow it, or the server is stopping.
        """
        self._parts.control.load(name, LoadOverrides(config, files))

    def unload_model(self, name: str) -> None:
        """Take a model out of service; what it has accepted is still answered. An unknown one is no error.

        Raises:
            UnavailableError: the control mode does not allow it.
        """
        self._parts.control.unload(name, dependents=False)

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


class Model:
    """One model of an embedded server."""

    def __init__(self, parts: ServerParts, name: str, version: int) -> None:
        self._parts = parts
        self.name = name
        self._version = version

    def __repr__(self) -> str:
        version = "" if self._version == ANY_VERSION else f", version={self._version}"
        return f"Model({self.name!r}{version})"

    @property
    def loaded(self) -> ModelVersion:
        """The engine's record of the version that serves now. Raises NotFoundError once it is gone."""
        return self._parts.models.find(self.name, self._version)

    @property
    def version(self) -> int:
        """The version that serves now."""
        return self.loaded.version

    @property
    def ready(self) -> bool:
        try:
            return self.loaded.live_instances > 0
        except CharoniaError:
            return False

    @property
    def metadata(self) -> ModelMetadata:
        """Names, datatypes and shapes of inputs and outputs, as the protocol shows them."""
        return Metadata(self._parts, lambda: self._parts.models).model(self.name, self._version)

    @property
    def config(self) -> "ModelConfig":
        """The completed configuration, a protobuf message. Treat it as read-only."""
        return self.loaded.config

    def statistics(self) -> StatisticsRecord:
        """What this version has counted since it was loaded."""
        (record,) = Statistics(lambda: self._parts.models).read(self.name, self.version)
        return record

    def infer(
        self,
        inputs: Mapping[str, ArrayLike] = _NO_INPUTS,
        /,
        *,
        outputs: Sequence[str] = (),
        parameters: Mapping[str, Parameter] = NO_PARAMETERS,
        request_id: str = "",
        priority: int = 0,
        timeout_us: int = 0,
        timeout_s: float | None = None,
        **arrays: ArrayLike,
    ) -> Outputs:
        """Run one inference and wait for it.

        Args:
            inputs: arrays by input name, for names that are no Python identifiers; added to the keywords. An array
                has the batch dimension where the model batches. BYTES inputs are arrays of bytes or str.
            outputs: which outputs to give, all when empty.
            parameters: for the model, beside its inputs.
            request_id: what messages and the model know the request by.
            priority: 1 for the most urgent level of a model that has levels; 0 for its default.
            timeout_us: how long it may wait for an instance, in microseconds, where the model's queue policy allows
                requests to say so; 0 for what the policy says.
            timeout_s: how long to wait for the answer; the request is cancelled then.

        Returns:
            Arrays by output name, yours to change. BYTES outputs are arrays of `bytes` objects.

        Raises:
            CharoniaError: as a client would get it.
            TimeoutError: not done within `timeout_s`.
        """
        future = self.submit(
            {**inputs, **arrays},
            outputs=outputs,
            parameters=parameters,
            request_id=request_id,
            priority=priority,
            timeout_us=timeout_us,
        )
        try:
            return _arrays(future.result(timeout_s))
        except TimeoutError:
            future.cancel()
            raise

    async def infer_async(
        self,
        inputs: Mapping[str, ArrayLike] = _NO_INPUTS,
        /,
        *,
        outputs: Sequence[str] = (),
        parameters: Mapping[str, Parameter] = NO_PARAMETERS,
        request_id: str = "",
        priority: int = 0,
        timeout_us: int = 0,
        **arrays: ArrayLike,
    ) -> Outputs:
        """As `infer`, without blocking the event loop. Cancelling the task cancels the request."""
        future = self.submit(
            {**inputs, **arrays},
            outputs=outputs,
            parameters=parameters,
            request_id=request_id,
            priority=priority,
            timeout_us=timeout_us,
        )
        return _arrays(await asyncio.wrap_future(future))

    def submit(
        self,
        inputs: Mapping[str, ArrayLike],
        *,
        outputs: Sequence[str] = (),
        parameters: Mapping[str, Parameter] = NO_PARAMETERS,
        request_id: str = "",
        priority: int = 0,
        timeout_us: int = 0,
    ) -> ResultFuture:
        """Start one inference. The arrays must not change until the future is done."""
        model = self.loaded
        datatypes = {spec.name: spec.datatype for spec in model.inputs}
        tensors = [_tensor(name, array, datatypes.get(name, "")) for name, array in inputs.items()]
        return self._parts.client.submit(
            self.name,
            tensors,
            version=self._version,
            id=request_id,
            outputs=outputs,
            parameters=parameters,
            priority=priority,
            timeout_us=timeout_us,
        )


def _checked(options: ServerOptions, mount: Mapping[str, "ASGIApp"]) -> ServerParts:
    options.check()
    return ServerParts(options, mounts=mount)


def _arrays(result: InferResult) -> Outputs:
    return {name: _writable(tensor.numpy()) for name, tensor in result.outputs.items()}


def _writable(array: Array) -> Array:
    return array if array.flags.writeable else array.copy()


def _tensor(name: str, value: ArrayLike, datatype: str) -> Tensor:
    """Arrays keep their dtype, so that a wrong one is told; lists and numbers take the model's."""
    if isinstance(value, np.ndarray):
        return Tensor.from_numpy(name, value)
    known = DATATYPES.get(datatype)
    try:
        array = np.asarray(value, dtype=known.numpy if known is not None and datatype != BYTES else None)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidArgumentError(f"input '{name}' can't be made {datatype or 'an array'}: {error}") from None
    return Tensor.from_numpy(name, array)
