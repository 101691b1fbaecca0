"""A model's class and its instance: the calls into the user's code and what may come out of them."""

from __future__ import annotations

import json
import threading
from typing import Any, Sequence

from .errors import ModelFailure, TritonError
from .failures import describe, where
from .messages import InferenceRequest, InferenceResponse
from .model_config import CONTRADICTS, Contradiction, ModelConfig

CLASS_NAME = "TritonPythonModel"
Result = Any  # InferenceResponse or TritonError


class Model:
    """One instance of a user's model. Every method raises ModelFailure with a text for the client or the log.

    Args:
        name: the instance's name, for messages (`m_0_1`).
        module: the user's module, already imported.
    """

    def __init__(self, name: str, module: Any) -> None:
        self.name = name
        self._module = module
        if not hasattr(module, CLASS_NAME):
            raise ModelFailure(f"{module.__file__} has no class named {CLASS_NAME}")
        self._class: Any = getattr(module, CLASS_NAME)
        self._instance: Any = None
        self._execute: Any = None
        self._loop: Any = None

    def complete(self, config_json: str) -> str:
        """Run auto_complete_config, if there is one. JSON in, JSON out."""
        config = ModelConfig(config_json)
        try:
            if hasattr(self._class, "auto_complete_config"):
                config = self._class.auto_complete_config(config)
            if not isinstance(config, ModelConfig):
                raise TypeError(f"it must return the ModelConfig, got {type(config).__name__}")
            return json.dumps(config.as_dict(), default=_plain)
        except Contradiction as error:
            raise ModelFailure(f"{CONTRADICTS} {error.path}: {where(error)}: {error}") from None
        except BaseException as error:
            raise ModelFailure(f"auto_complete_config failed: {describe(error)}") from None

    def initialize(self, args: dict[str, str]) -> None:
        try:
            self._instance = self._class()
            if hasattr(self._instance, "initialize"):
                self._instance.initialize(args)
        except BaseException as error:
            raise ModelFailure(f"initialize failed: {describe(error)}") from None
        self._execute = getattr(self._instance, "execute", None)
        if self._execute is None:
            raise ModelFailure(f"{self._module.__file__}: class {CLASS_NAME} has no method named execute")

    def execute(self, requests: list[InferenceRequest]) -> list[Result]:
        """One result for each request, an InferenceResponse or a TritonError."""
        try:
            returned = self._execute(requests)
            if _is_coroutine(returned):
                returned = self._run(returned)
        except BaseException as error:
            raise self._failure(describe(error)) from None
        return self._results(requests, returned)

    def finalize(self) -> None:
        """Also after a failed initialize; then the user's finalize is not called."""
        instance, self._instance = self._instance, None
        try:
            if instance is not None and self._execute is not None and hasattr(instance, "finalize"):
                instance.finalize()
        except BaseException as error:
            raise ModelFailure(f"finalize failed: {describe(error)}") from None
        finally:
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)

    def _failure(self, text: str) -> ModelFailure:
        return ModelFailure(f"Failed to process the request(s) for model '{self.name}', message: {text}")

    def _results(self, requests: list[InferenceRequest], returned: Any) -> list[Result]:
        if returned is None:
            returned = [None] * len(requests)
        if not isinstance(returned, (list, tuple)):
            raise self._failure(f"execute must return a list of InferenceResponse, got {type(returned).__name__}")
        if len(returned) != len(requests):
            raise self._failure(
                f"execute returned {len(returned)} InferenceResponse objects for {len(requests)} InferenceRequest "
                "objects; it must return one for each, in the same order"
            )
        return self._checked(requests, returned)

    def _checked(self, requests: list[InferenceRequest], returned: Sequence[Any]) -> list[Result]:
        if set(map(type, returned)) == {InferenceResponse}:
            return list(returned)
        return [self._result(request, response) for request, response in zip(requests, returned)]

    def _result(self, request: InferenceRequest, response: Any) -> Result:
        if response is None and request._sent is not None:
            response = request._sent
        if isinstance(response, InferenceResponse):
            return response
        what = "no response (None)" if response is None else f"{type(response).__name__}, not an InferenceResponse,"
        text = f"execute returned {what} for the request"
        return TritonError(str(self._failure(text)), TritonError.INTERNAL)

    def _run(self, coroutine: Any) -> Any:
        """Run on the model's own event loop, whose other tasks go on between batches."""
        import asyncio  # a third of the time that a process takes to start, and few models need it

        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name=f"{self.name} event loop", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()


def _plain(value: Any) -> Any:
    """numpy's numbers in what a model put into its configuration."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} can't be part of a configuration")


def _is_coroutine(returned: Any) -> bool:
    return type(returned) is not list and hasattr(returned, "__await__") and hasattr(returned, "send")
