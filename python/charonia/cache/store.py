"""What a store of cached responses is. Keys are digests; what is kept is never changed."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from charonia.cache.response import CachedResponse
from charonia.core.shelf import KeptAnswer

Found = Callable[[CachedResponse | None], None]


class Store(Protocol):
    """Takes calls from any thread. A `LocalStore` or a `RemoteStore`; `name` is that of `--cache-config`."""

    @property
    def name(self) -> str: ...

    @property
    def is_shared(self) -> bool:
        """Whether other servers, or this one after a restart, find what is kept."""

    def insert(self, key: bytes, response: CachedResponse) -> bool:
        """Keep it, unless there is one. False: it is too large. Takes no time worth speaking of, raises nothing."""

    def close(self) -> None:
        """Nothing is looked up or kept any more."""


@runtime_checkable
class LocalStore(Store, Protocol):
    """Looks up at once."""

    def lookup(self, key: bytes) -> CachedResponse | None: ...

    def add_place(self, key: bytes, response: CachedResponse, kept: KeptAnswer) -> None:
        """`response` is given by the front end too, unless it is not here any more."""

    def leave_places(self, key: bytes, response: CachedResponse) -> None:
        """The front end gives it no more."""

    def count_hits(self, count: int, lookup_ns: int) -> None:
        """So many were given by the front end."""


@runtime_checkable
class RemoteStore(Store, Protocol):
    """Looks up over a network, on threads of its own."""

    def begin_lookup(self, key: bytes, found: Found) -> None:
        """Call `found` once, on a thread of the store or at once, soon whatever happens. It doesn't raise."""
