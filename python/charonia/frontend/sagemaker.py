"""What SageMaker asks of a multi-model endpoint, beside inference: its models are loaded, listed and unloaded.

SageMaker unpacks a model's archive below /opt/ml/models and names it by a hash; the archive's own name comes in a
header, and the model is served under that. Pings and inferences never come here (`gateways.py`).
"""

import threading
from dataclasses import dataclass

from starlette.responses import Response
from starlette.routing import Route

from charonia.control.handlers import Handlers
from charonia.core.errors import (
    AlreadyExistsError,
    CharoniaError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from charonia.core.log import Log
from charonia.core.request import ANY_VERSION
from charonia.core.text import shown
from charonia.frontend.control.app import RoutedApp
from charonia.frontend.control.body import Kind, parse_object
from charonia.frontend.control.http_answers import (
    NOT_FOUND,
    Ask,
    Endpoint,
    NotFound,
    StatusOf,
    empty_answer,
    error_answer,
    json_answer,
)
from charonia.frontend.control.waiting import WaitingCalls
from charonia.frontend.gateways import DEFAULT_MODEL, INSUFFICIENT_STORAGE, OUT_OF_MEMORY, SageMakerPaths
from charonia.frontend.sagemaker_folders import place_of

TARGET_MODEL = "x-amzn-sagemaker-target-model"
_CONFLICT = 409
_BAD_REQUEST = 400
_UNAVAILABLE = 503
# SageMaker gives up on an unload after 360 s.
_UNLOAD_S = 350.0
_BODY = {"model_name": Kind.STRING, "url": Kind.STRING}


@dataclass(frozen=True, slots=True)
class _Loaded:
    """
    Attributes:
        model: what it is served as.
        url: the repository, as answers tell it.
    """

    model: str
    url: str


class SageMakerApp(RoutedApp):
    """An ASGI app for `/models`. Its handlers run on the event loop; what waits, on threads of `waiting`.

    Args:
        paths: told which names may be invoked; says where models lie.
    """

    def __init__(
        self,
        handlers: Handlers,
        paths: SageMakerPaths,
        status_of: StatusOf,
        log: Log,
        waiting: WaitingCalls,
    ) -> None:
        self._handlers = handlers
        self._paths = paths
        self._log = log
        self._waiting = waiting
        self._lock = threading.Lock()
        self._loaded: dict[str, _Loaded] = {}
        self._loading: set[str] = set()
        super().__init__(
            [
                Route("/invocations", Endpoint({"POST": self._invoke_default}, status_of, log)),
                Route("/models", Endpoint({"GET": self._list, "POST": self._load}, status_of, log)),
                Route("/models/{name}", Endpoint({"GET": self._describe, "DELETE": self._unload}, status_of, log)),
                Route("/models/{name}/invoke", Endpoint({"POST": self._invoke}, status_of, log)),
            ],
            NotFound(),
        )

    async def _list(self, ask: Ask) -> Response:
        """Those that are ready."""
        models = [(name, loaded) for name, loaded in self._loaded.items()]
        ready = [_described(name, loaded) for name, loaded in models if await self._is_ready(loaded.model)]
        return json_answer({"models": ready})

    async def _is_ready(self, model: str) -> bool:
        try:
            return await self._handlers.health.model_ready(model, ANY_VERSION)
        except CharoniaError:
            return False

    async def _describe(self, ask: Ask) -> Response:
        name = ask["name"]
        loaded = self._loaded.get(name)
        return _not_loaded(name) if loaded is None else json_answer(_described(name, loaded))

    async def _invoke_default(self, ask: Ask) -> Response:
        """Comes here only where there is no default model."""
        raise NotFoundError(
            f"Request for unknown model: there is no default model for /invocations; {DEFAULT_MODEL} is to name one"
        )

    async def _invoke(self, ask: Ask) -> Response:
        """Only what is not loaded comes here."""
        return _not_loaded(ask["name"])

    async def _load(self, ask: Ask) -> Response:
        body = parse_object(ask.body, "load model", _BODY)
        name, url = (_required(body, member) for member in _BODY)
        model = ask.header(TARGET_MODEL) or name
        self._log.info(f"Loading SageMaker TargetModel: {shown(model)}")
        try:
            self._refuse_known(name)  # at once, however long the load of that name takes
            await self._waiting.run(model, lambda: self._load_now(name, model, url))
        except CharoniaError as error:
            return error_answer(_status(error), str(error))
        return empty_answer()

    def _load_now(self, name: str, model: str, url: str) -> None:
        place = place_of(url, self._paths.models)
        with self._lock:  # calls take turns by model, and two may come with one name
            self._refuse_known(name)
            self._loading.add(name)
        try:
            self._handlers.repository.add(place.repository, place.folder, model)
            with self._lock:
                self._loaded[name] = _Loaded(model, place.repository)
            self._paths.add(name, model)
        finally:
            self._loading.discard(name)

    def _refuse_known(self, name: str) -> None:
        """Raises AlreadyExistsError: it is loaded, or being loaded."""
        if name in self._loading:
            raise AlreadyExistsError(f"model '{shown(name)}' is being loaded")
        loaded = self._loaded.get(name)  # another thread may unload it
        if loaded is not None:
            raise AlreadyExistsError(f"model '{shown(name)}' is loaded already, from '{loaded.url}'")

    async def _unload(self, ask: Ask) -> Response:
        name = ask["name"]
        with self._lock:
            loaded = self._loaded.get(name)
        if loaded is None:
            return _not_loaded(name)
        self._log.info(f"Unloading SageMaker TargetModel: {shown(loaded.model)}")
        await self._waiting.run(loaded.model, lambda: self._unload_now(name, loaded))
        return empty_answer()

    def _unload_now(self, name: str, loaded: _Loaded) -> None:
        with self._lock:
            if self._loaded.get(name) is not loaded:
                return  # by another call
            del self._loaded[name]
        self._paths.remove(name)
        if not self._handlers.repository.remove(loaded.url, loaded.model, _UNLOAD_S):
            self._log.error(f"model '{shown(loaded.model)}' has not ended within {_UNLOAD_S:.0f} s of being unloaded")


def _status(error: CharoniaError) -> int:
    """Of a load that failed, as SageMaker understands it."""
    if isinstance(error, AlreadyExistsError):
        return _CONFLICT
    if any(words in str(error) for words in OUT_OF_MEMORY):
        return INSUFFICIENT_STORAGE
    return _UNAVAILABLE if isinstance(error, UnavailableError) else _BAD_REQUEST


def _described(name: str, loaded: _Loaded) -> dict[str, str]:
    return {"modelName": name, "modelUrl": loaded.url}


def _not_loaded(name: str) -> Response:
    return error_answer(NOT_FOUND, f"model '{shown(name)}' is not loaded")


def _required(body: dict[str, str], member: str) -> str:
    if not body.get(member):
        raise InvalidArgumentError(f"load model body: '{member}' is missing, expected a string that is not empty")
    return body[member]
