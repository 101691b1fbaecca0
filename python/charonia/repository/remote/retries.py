"""What is done when a store does not answer as it should: tried again, asked with new credentials, or told.

A store that is away for a moment is no error. One that refuses may have got new credentials: they are read once more.
"""

import threading
from collections.abc import Callable
from itertools import count
from typing import TypeVar

from charonia.core.clock import Clock
from charonia.core.cloud_address import CloudAddress
from charonia.core.errors import CharoniaError, InvalidArgumentError, NotFoundError, UnavailableError
from charonia.core.log import Log
from charonia.core.text import in_one_line
from charonia.repository.remote.credentials import Credentials
from charonia.repository.remote.stores import Store

T = TypeVar("T")

# Together about six seconds of waiting, beside what the tries themselves take.
_WAITS_S = (0.2, 0.4, 0.8, 1.6, 3.2)
# The libraries have no common class for these.
_REFUSALS = ("NoCredentialsError", "PartialCredentialsError", "ClientAuthenticationError", "RefreshError")
_WRONG_SETTINGS = (
    "AzureSigningError",
    "DefaultCredentialsError",
    "InvalidRegionError",
    "ParamValidationError",
    "ProfileNotFound",
)
_MAX_REASON_CHARACTERS = 400
# As Triton calls them, where its log is searched for this.
_CLIENTS = {"s3": "S3 filesystem", "gs": "GCS", "as": "Azure filesystem"}

Opened = tuple[Store, Credentials]


class MissingError(NotFoundError):
    """There is no such bucket or object."""


class SteadyStore:
    """A store whose calls are tried again while that may help.

    Args:
        reopen: gives the store, with the credentials as they are now.
        stopping: once it is set, nothing is tried again.
    """

    def __init__(
        self, address: CloudAddress, reopen: Callable[[], Opened], clock: Clock, stopping: threading.Event, log: Log
    ) -> None:
        self.address = address
        self._reopen = reopen
        self._clock = clock
        self._stopping = stopping
        self._log = log
        self._lock = threading.Lock()
        self._opened: Opened | None = None

    def call(self, what: str, work: Callable[[Store], T]) -> T:
        """
        Args:
            what: what is tried, for messages: "list it".

        Raises:
            MissingError: there is no such bucket or object.
            InvalidArgumentError: the store refuses, or the credentials are wrong.
            UnavailableError: it can't be reached, or the server stops.
        """
        started_ns = self._clock.now_ns()
        waits = iter(_WAITS_S)
        is_new = False
        for tries in count(1):
            store, credentials = self._current()
            try:
                return work(store)
            except CharoniaError:
                raise
            except Exception as error:
                who, reason = self._who(what, credentials), credentials.redacted(_reason(error))
                if _is_refusal(error) and not is_new and self._renewed(store):
                    is_new = True
                    continue
                if (known := self._known(error, who, reason)) is not None:
                    raise known from None
                if (wait_s := next(waits, None)) is None or not self._may_try_again(wait_s):
                    taken_s = (self._clock.now_ns() - started_ns) / 1e9
                    raise UnavailableError(f"{who}: tried {tries} times in {taken_s:.1f} s: {reason}") from None
                self._log.verbose(f"{self.address.written}: trying again to {what}: {reason}")
        raise AssertionError("a count has no end")

    def _known(self, error: Exception, who: str, reason: str) -> CharoniaError | None:
        """What no further try would change; None for what one may."""
        if isinstance(error, FileNotFoundError):
            return MissingError(f"{who}: it does not exist: {reason}")
        if _is_refusal(error):
            client = _CLIENTS[self.address.kind]
            return InvalidArgumentError(
                f"{who}: Unable to create {client} client. Check account credentials. It was refused: {reason}"
            )
        if type(error).__name__ in _WRONG_SETTINGS:
            return InvalidArgumentError(f"{who}: {reason}")
        return None

    def _may_try_again(self, wait_s: float) -> bool:
        """After a wait; not while the server stops."""
        return not self._stopping.wait(wait_s)

    def _who(self, what: str, credentials: Credentials) -> str:
        return f"can't {what} at {self.address.host} with credentials from {credentials.source}"

    def _current(self) -> Opened:
        with self._lock:
            if self._opened is None:
                self._opened = self._reopen()
            return self._opened

    def _renewed(self, refused: Store) -> bool:
        """Read the credentials again. False when they are the same keys as before."""
        with self._lock:
            if self._opened is None or self._opened[0] is not refused:
                return True  # another thread has done it
            before = self._opened[1]
            self._opened = self._reopen()
            return self._opened[1] != before or not before.has_keys


def _is_refusal(error: Exception) -> bool:
    status = getattr(error, "code", None) or getattr(error, "status_code", None)
    return isinstance(error, PermissionError) or type(error).__name__ in _REFUSALS or status in (401, 403, "401", "403")


def _reason(error: Exception) -> str:
    text = in_one_line(str(error)) or type(error).__name__
    return f"{type(error).__name__}: {text[:_MAX_REASON_CHARACTERS]}"
