"""The one way in for requests of every origin: the wire, in-process callers, ensembles and BLS."""

from collections.abc import Sequence
from typing import Protocol

from charonia.core.errors import CharoniaError, InternalError, InvalidArgumentError, UnsupportedError
from charonia.core.request import InferRequest, refuse
from charonia.engine.model import ModelVersion, RetiredError

# Calls of decoupled models hold no instance, so that nothing else would end a model that calls itself for ever.
_MAX_DEPTH = 64
_MAX_SHOWN = 8


class ModelDirectory(Protocol):
    """Knows which versions can serve."""

    def find(self, name: str, version: int) -> ModelVersion:
        """The version asked for, ANY_VERSION for the one that the version policy prefers.

        Raises:
            NotFoundError: no such model or version.
            UnavailableError: it is loading, failed to load, or is being unloaded.
        """

    def find_leaving(self, name: str, version: int) -> ModelVersion | None:
        """As `find`, among those that are being unloaded and still answer what was accepted before."""


class Engine:
    """See `core.protocols.Submitter`."""

    def __init__(self, directory: ModelDirectory) -> None:
        self._directory = directory

    def submit(self, request: InferRequest) -> None:
        self._guarded(request, waits=False)

    def submit_all(self, requests: Sequence[InferRequest]) -> None:
        if _are_alike(requests):
            try:
                if self._find(requests[0]).submit_all(requests):
                    return
            except CharoniaError:
                pass  # a reload came between, or there is no such model: each by itself finds out
            except Exception as error:
                for request in requests:
                    refuse(request, _fault(request, error))
                return
        for request in requests:
            self.submit(request)

    def submit_waiting(self, request: InferRequest) -> None:
        self._guarded(request, waits=True)

    def _guarded(self, request: InferRequest, waits: bool) -> None:
        try:
            self._submit(request, waits)
        except CharoniaError as error:
            refuse(request, error)
        except Exception as error:
            # A bug, but it must not end the thread that submits, and with it every other request.
            refuse(request, _fault(request, error))

    def _submit(self, request: InferRequest, waits: bool) -> None:
        model = self._find(request)
        while True:
            try:
                return model.submit_waiting(request) if waits else model.submit(request)
            except RetiredError:
                # A reload came between the two. Whoever retires a version has published what takes its place.
                retired, model = model, self._find(request)
                if model is retired:
                    raise

    def _find(self, request: InferRequest) -> ModelVersion:
        model = self._found(request)
        if model.decoupled and not request.takes_stream:
            how = (
                "use the 'decoupled=True' argument to the 'exec' or 'async_exec' calls"
                if request.ancestors  # a Python model calls it: ensembles are decoupled where a step is
                else "ask it by ModelStreamInfer, by generate and generate_stream over HTTP, or by stream in process"
            )
            raise UnsupportedError(
                f"model '{model.name}' is decoupled: a call with one answer doesn't support models with "
                f"decoupled transaction policy; {how}"
            )
        if model.id in request.ancestors:
            _refuse_circle(model, request.ancestors)
        return model

    def _found(self, request: InferRequest) -> ModelVersion:
        try:
            return self._directory.find(request.model_name, request.model_version)
        except CharoniaError:
            # An ensemble that is unloaded together with its steps answers what it had accepted.
            if request.ancestors:
                model = self._directory.find_leaving(request.model_name, request.model_version)
                if model is not None:
                    return model
            raise


def _are_alike(requests: Sequence[InferRequest]) -> bool:
    """Whether what `_find` says of the first is true of all."""
    first = requests[0]
    name, version, ancestors, takes_stream = first.model_name, first.model_version, first.ancestors, first.takes_stream
    for each in requests:
        if (
            each.model_name != name
            or each.model_version != version
            or each.ancestors != ancestors
            or each.takes_stream != takes_stream
        ):
            return False
    return True


def _refuse_circle(model: ModelVersion, ancestors: Sequence[str]) -> None:
    """A model may call itself while it has a free instance: the last one to become busy finds none, so nobody hangs.

    Raises:
        InvalidArgumentError: it has none, or the calls are nested too deep.
    """
    if len(ancestors) < _MAX_DEPTH and model.may_call_itself:
        return
    way = " → ".join((*ancestors[-_MAX_SHOWN:], model.id))
    why = f"calls are nested {len(ancestors)} deep" if len(ancestors) >= _MAX_DEPTH else "none of its instances is free"
    raise InvalidArgumentError(f"model '{model.name}' would wait for itself: {way} is a circle of calls, and {why}")


def _fault(request: InferRequest, error: Exception) -> InternalError:
    return InternalError(f"the request to model '{request.model_name}' failed by a fault of the server: {error!r}")
