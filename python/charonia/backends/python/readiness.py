"""The question to a model of whether it is ready."""

import threading
from collections.abc import Callable
from concurrent.futures import Future

from charonia.core.log import Log

NOT_READY: "Future[bool]" = Future()
"""The answer of an instance that is not there."""
NOT_READY.set_result(False)


class ReadinessQuestion:
    """Put to one instance, once at a time: who asks while it is open gets the same answer.

    Args:
        label: the instance, for the log.
        put: asks the model; must not block. Its answer comes to `answered`; if it raises, that is a no.
    """

    def __init__(self, label: str, put: Callable[[], None], log: Log) -> None:
        self._label = label
        self._put = put
        self._log = log
        self._lock = threading.Lock()
        self._open: Future[bool] | None = None
        self._closed = False

    def ask(self) -> "Future[bool]":
        """What the model will say; a model that never answers leaves it open. Nobody's leaving cancels it."""
        with self._lock:
            if self._closed:
                return NOT_READY
            answer, is_new = self._open, self._open is None
            if answer is None:
                answer = self._open = Future()
                answer.set_running_or_notify_cancel()
        if is_new:
            try:
                self._put()
            except Exception as error:  # no more threads, for one
                self.answered(False, f"it could not be asked: {error!r}")
        return answer

    def answered(self, ready: bool, problem: str = "") -> None:
        """From any thread. `problem`: why there is no true answer."""
        if problem:
            self._log.verbose(f"{self._label} is not ready: {problem}")
        with self._lock:
            answer, self._open = self._open, None
        if answer is not None:
            answer.set_result(ready)

    def close(self) -> None:
        """The model has gone: it is not ready."""
        with self._lock:
            self._closed = True
        self.answered(False)
