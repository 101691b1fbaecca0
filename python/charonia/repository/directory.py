"""The published view of the loaded models: what the engine looks requests up in. Never changes once made."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Generic

from charonia.core.errors import CharoniaError, NotFoundError, UnavailableError
from charonia.core.request import ANY_VERSION
from charonia.core.text import shown
from charonia.repository.states import IndexEntry, ModelRecord, State, V, VersionRecord


class Directory(Generic[V]):
    """A snapshot of all models.

    Attributes:
        serving: by (name, version), and by (name, ANY_VERSION) for the version that serves requests without one.
    """

    __slots__ = ("_index", "_scanned", "_versions", "serving")

    def __init__(self, models: Mapping[str, ModelRecord[V]], *, scanned: bool) -> None:
        self._scanned = scanned
        self._index = tuple(_index(models.values()))
        self._versions: dict[str, tuple[V, ...]] = {name: _serving(model) for name, model in models.items()}
        self.serving: dict[tuple[str, int], V] = {}
        for name, model in models.items():
            for number, record in sorted(model.versions.items()):
                if record.state is State.READY and record.loaded is not None:
                    self.serving[name, number] = record.loaded
                    self.serving[name, ANY_VERSION] = record.loaded

    def find(self, name: str, version: int = ANY_VERSION) -> V:
        """The loaded version, or the latest one for ANY_VERSION.

        Raises:
            NotFoundError: no such model, no such version, or none that could be loaded.
            UnavailableError: it is loading or unloading.
        """
        found = self.serving.get((name, version))
        if found is None:
            raise self.why_not(name, version)
        return found

    def versions(self, name: str) -> Sequence[V]:
        """All loaded versions, ascending. Raises as `find`."""
        versions = self._versions.get(name)
        if not versions:
            raise self.why_not(name, ANY_VERSION)
        return versions

    def loaded(self) -> Sequence[V]:
        """All loaded versions of all models, by name and version."""
        return tuple(loaded for _, versions in sorted(self._versions.items()) for loaded in versions)

    def index(self) -> Sequence[IndexEntry]:
        """Every model of the repositories, by name and version."""
        return self._index

    def why_not(self, name: str, version: int) -> CharoniaError:
        """The error for a version that is not in `serving`."""
        entries = [entry for entry in self._index if entry.name == name]
        if not entries:
            if not self._scanned:
                return UnavailableError(f"model '{shown(name)}' can't be served yet: the server is loading its models")
            return NotFoundError(
                f"Request for unknown model: '{shown(name)}' is not found: no repository of this server has it"
            )
        if version != ANY_VERSION:
            return _why_not_version(name, version, entries)
        if any(entry.state is State.LOADING for entry in entries):
            return UnavailableError(f"model '{name}' is loading")
        return NotFoundError(f"Request for unknown model: '{name}' has no available versions{_reasons(entries)}")


def _serving(model: ModelRecord[V]) -> tuple[V, ...]:
    return tuple(r.loaded for _, r in sorted(model.versions.items()) if r.state is State.READY and r.loaded is not None)


def _why_not_version(name: str, version: int, entries: Sequence[IndexEntry]) -> CharoniaError:
    for entry in entries:
        if entry.version == version and entry.state in (State.LOADING, State.UNLOADING):
            return UnavailableError(f"model '{name}' version {version} is {entry.state.lower()}")
        if entry.version == version:
            return UnavailableError(f"model '{name}' version {version} is not at ready state{_reasons([entry])}")
    if any(entry.version is None and entry.state is State.LOADING for entry in entries):
        return UnavailableError(f"model '{name}' is loading")
    there = ", ".join(str(entry.version) for entry in entries if entry.version is not None) or "none"
    return NotFoundError(
        f"Request for unknown model: '{name}' version {version} is not found{_reasons(entries)}; versions: {there}"
    )


def _reasons(entries: Iterable[IndexEntry]) -> str:
    reasons = [
        f"version {entry.version}: {entry.reason}" if entry.version is not None else entry.reason
        for entry in entries
        if entry.reason
    ]
    return f" ({'; '.join(reasons)})" if reasons else ""


def _index(models: Iterable[ModelRecord[V]]) -> Iterable[IndexEntry]:
    for model in sorted(models, key=lambda each: each.name):
        if model.versions:
            yield from (_entry(model.name, record) for _, record in sorted(model.versions.items()))
        elif model.reason:
            yield IndexEntry(model.name, None, State.UNAVAILABLE, model.reason)
        else:
            yield IndexEntry(model.name, None, State.LOADING if model.asked else None)


def _entry(name: str, record: VersionRecord[V]) -> IndexEntry:
    return IndexEntry(name, record.version, record.state, record.reason)
