"""A model's class and its instance: the calls into the user's code and what may come out of them."""

from __future__ import annotations

import json
import threading
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import Any

from .calls import outside_execute
from .errors import ModelFailure
from .failures import describe, where
from .messages import InferenceRequest
from .model_config import CONTRADICTS, Contradiction, ModelConfig, using_decoupled_model_transaction_policy
from .senders import Outcome, failed, outcomes

CLASS_NAME = "TritonPythonModel"


class Model:
    """One instance of a user's model. Every method but `execute` raises ModelFailure with a text for the log.

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
        self._is_over = False
        self._starting = threading.Lock()
        self.decoupled = False

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
        self.decoupled = is_decoupled(args)
        try:
            with outside_execute():
                self._instance = self._class()
                if hasattr(self._instance, "initialize"):
                    self._instance.initialize(args)
        except BaseException as error:
            raise ModelFailure(f"initialize failed: {describe(error)}") from None
        self._execute = getattr(self._instance, "execute", None)
        if self._execute is None:
            raise ModelFailure(f"{self._module.__file__}: class {CLASS_NAME} has no method named execute")

    def execute(self, requests: list[InferenceRequest]) -> list[Outcome]:
        """What becomes of each request, whatever the user's code does."""
        try:
            returned = self._execute(list(requests))  # a copy: models may empty it
            if _is_coroutine(returned):
                if self.decoupled:
                    self._begin(returned, requests)
                    returned = None
                else:
                    returned = self._run(returned)
            if self.decoupled and returned is not None:
                raise ModelFailure(
                    f"Python model '{self.name}' is using the decoupled mode and the execute function must return "
                    f"None. Its responses go by response senders; got {type(returned).__name__}"
                )
            return outcomes(requests, returned, self.decoupled, self._failure)
        except ModelFailure as failure:
            return failed(requests, self._failure(str(failure)), self.decoupled)
        except BaseException as error:
            return failed(requests, self._failure(describe(error)), self.decoupled)

    @property
    def hears_of_sequences(self) -> bool:
        return hasattr(self._instance, "sequence_ended")

    def sequence_ended(self, correlation_id: int | str, reason: str) -> None:
        """Tell the model, if it has such a method, that no more of a sequence will come: it was "idle" for too long or
        "cancelled"."""
        if not self.hears_of_sequences:
            return
        try:
            returned = self._instance.sequence_ended(correlation_id, reason)
            if _is_coroutine(returned):
                self._run(returned)
        except BaseException as error:
            raise ModelFailure(f"sequence_ended failed: {describe(error)}") from None

    @property
    def tells_ready(self) -> bool:
        return hasattr(self._instance, "is_ready")

    def is_ready(self) -> bool:
        """What the model says; called beside `execute`."""
        try:
            answer = self._instance.is_ready()
            if _is_coroutine(answer):
                answer = self._run(answer)
            if not isinstance(answer, bool):
                raise TypeError(f"it must return a bool, got {type(answer).__name__}")
            return answer
        except BaseException as error:
            raise ModelFailure(f"is_ready failed: {describe(error)}") from None

    def finalize(self) -> None:
        """Also after a failed initialize; then the user's finalize is not called."""
        instance, self._instance = self._instance, None
        try:
            if instance is not None and self._execute is not None and hasattr(instance, "finalize"):
                with outside_execute():
                    instance.finalize()
        except BaseException as error:
            raise ModelFailure(f"finalize failed: {describe(error)}") from None
        finally:
            self._execute = None  # it refers to the instance, which may hold senders
            self._is_over = True
            if self._loop is not None:
                self._loop.call_soon_threadsafe(self._loop.stop)

    def _failure(self, text: str) -> str:
        return f"Failed to process the request(s) for model '{self.name}', message: {text}"

    def _begin(self, coroutine: Any, requests: list[InferenceRequest]) -> None:
        """Run beside what comes next: the requests are answered by their senders, also when the coroutine fails."""
        running = self._start(coroutine)

        def ended(done: Any) -> None:
            error = CancelledError() if done.cancelled() else done.exception()
            if error is not None:
                failed(requests, self._failure(describe(error)), decoupled=True)

        running.add_done_callback(ended)

    def _run(self, coroutine: Any) -> Any:
        return self._start(coroutine).result()

    def _start(self, coroutine: Any) -> Any:
        """On the model's own event loop, whose other tasks go on between batches."""
        import asyncio  # a third of the time that a process takes to start, and few models need it

        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._keep_going, name=f"{self.name} event loop", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def _keep_going(self) -> None:
        """The event loop's thread. Code on it may stop the loop or call sys.exit(): others wait for their results."""
        while not (self._is_over or self._loop.is_closed()):
            with suppress(BaseException):  # it is the result of what raised it
                self._loop.run_forever()


def is_decoupled(args: dict[str, str]) -> bool:
    """Whether the model with these args of initialize is decoupled."""
    return using_decoupled_model_transaction_policy(json.loads(args["model_config"]))


def state_outputs(args: dict[str, str]) -> list[str]:
    """The outputs by which the model with these args of initialize gives the state of a sequence to the server."""
    sequence_batching = json.loads(args["model_config"]).get("sequence_batching") or {}
    return [state["output_name"] for state in sequence_batching.get("state", ())]


def _plain(value: Any) -> Any:
    """numpy's numbers in what a model put into its configuration."""
    if hasattr(value, "item"):
        return value.item()
    raise TypeError(f"{type(value).__name__} can't be part of a configuration")


def _is_coroutine(returned: Any) -> bool:
    return type(returned) is not list and hasattr(returned, "__await__") and hasattr(returned, "send")
