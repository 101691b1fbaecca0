"""The published view of the loaded models: what the engine looks requests up in. Never changes once made."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, cast

from charonia.core.errors import CharoniaError, InvalidArgumentError, NotFoundError, UnavailableError
from charonia.core.model_id import ModelId
from charonia.core.request import ANY_VERSION
from charonia.core.text import shown
from charonia.repository.states import IndexEntry, ModelRecord, State, V, VersionRecord


@dataclass(frozen=True, slots=True)
class ModelView(Generic[V]):
    """One model at one moment.

    Attributes:
        entries: its lines of the index, by version; none for a model that is gone.
        asked: whether it should be served: where several have one name, those that should not are not meant by it.
        serving: by number, ascending, the versions that serve; then, as ANY_VERSION, the one for requests without any.
        leaving: the same of those that are UNLOADING.
    """

    entries: tuple[IndexEntry, ...]
    serving: Mapping[int, V]
    leaving: Mapping[int, V]
    asked: bool = True

    @classmethod
    def of(cls, model: ModelRecord[V]) -> "ModelView[V]":
        return cls(tuple(_entries(model)), _loaded(model, State.READY), _loaded(model, State.UNLOADING), model.asked)

    @property
    def versions(self) -> tuple[V, ...]:
        return tuple(version for number, version in self.serving.items() if number != ANY_VERSION)


class Directory(Generic[V]):
    """A snapshot of all models.

    Attributes:
        models: by id.
        named: by what a request may say: the id, or a name that is the name of one model only.
    """

    __slots__ = ("_scanned", "models", "named")

    def __init__(self, models: Mapping[ModelId, ModelView[V]], *, scanned: bool) -> None:
        self._scanned = scanned
        self.models = models
        self.named: Mapping[str, ModelView[V]] = _by_name(models)

    @classmethod
    def of(cls, models: Mapping[str, ModelRecord[V]], *, scanned: bool = True) -> "Directory[V]":
        """The models as they are recorded now."""
        return cls({model.name: ModelView.of(model) for model in models.values()}, scanned=scanned)

    def find(self, name: str, version: int = ANY_VERSION) -> V:
        """The loaded version, or the latest one for ANY_VERSION.

        Raises:
            NotFoundError: no such model, no such version, or none that could be loaded.
            InvalidArgumentError: several models have this name.
            UnavailableError: it is loading or unloading.
        """
        model = self.named.get(name)
        found = model.serving.get(version) if model is not None else None
        if found is None:
            raise self.why_not(name, version)
        return found

    def find_leaving(self, name: str, version: int) -> V | None:
        """A version that is UNLOADING: it may still answer those that were accepted before, and need it for that."""
        model = self.named.get(name)
        return model.leaving.get(version) if model is not None else None

    def versions(self, name: str) -> Sequence[V]:
        """All loaded versions, ascending. Raises as `find`."""
        model = self.named.get(name)
        versions = model.versions if model is not None else ()
        if not versions:
            raise self.why_not(name, ANY_VERSION)
        return versions

    def loaded(self) -> Sequence[V]:
        """All loaded versions of all models, by name and version."""
        return tuple(version for _, model in sorted(self.models.items()) for version in model.versions)

    def index(self) -> Sequence[IndexEntry]:
        """Every model of the repositories, by name and version."""
        return tuple(entry for _, model in sorted(self.models.items()) for entry in model.entries)

    def check_known(self, name: str) -> None:
        """
        Raises:
            NotFoundError: no repository has this model.
            InvalidArgumentError: several have it, and it takes a namespace to say which.
        """
        model = self.named.get(name)
        if model is None or not model.entries:
            raise self._unknown(name)

    def _unknown(self, name: str) -> CharoniaError:
        same = _meant(sorted(model for model in self.models if model.name == name), self.models)
        if len(same) > 1:
            where = ", ".join(model.namespace or "a load request" for model in same)
            return InvalidArgumentError(
                f"There are {len(same)} models named '{shown(name)}', in {where}: the name with its namespace, as "
                f"'{same[0]}', is needed to resolve the ambiguity"
            )
        return NotFoundError(
            f"Request for unknown model: '{shown(name)}' is not found: no repository of this server has it"
        )

    def why_not(self, name: str, version: int) -> CharoniaError:
        """The error for a version that does not serve."""
        model = self.named.get(name)
        if model is None:
            if not self._scanned:
                return UnavailableError(f"model '{shown(name)}' can't be served yet: the server is loading its models")
            return self._unknown(name)
        if version != ANY_VERSION:
            return _why_not_version(name, version, model.entries)
        if any(entry.state is State.LOADING for entry in model.entries):
            return UnavailableError(f"model '{name}' is loading")
        why = _reasons(model.entries) or " (it is not loaded)"
        return NotFoundError(f"Request for unknown model: '{name}' has no available versions{why}")


def _by_name(models: Mapping[ModelId, ModelView[V]]) -> Mapping[str, ModelView[V]]:
    if not any(model.namespace for model in models):
        return cast("Mapping[str, ModelView[V]]", models)
    named: dict[str, list[ModelId]] = {}
    for model in models:
        named.setdefault(model.name, []).append(model)
    meant = {name: _meant(same, models) for name, same in named.items()}
    unique = {name: models[same[0]] for name, same in meant.items() if len(same) == 1}
    return {**cast("Mapping[str, ModelView[V]]", models), **unique}


def _meant(same: Sequence[ModelId], models: Mapping[ModelId, ModelView[V]]) -> Sequence[ModelId]:
    """Of the models of one name, those that a request may mean: what should be served, else what is there."""
    there = [model for model in same if models[model].entries] or same
    return [model for model in there if models[model].asked] or there


def _loaded(model: ModelRecord[V], state: State) -> Mapping[int, V]:
    found = {n: r.loaded for n, r in sorted(model.versions.items()) if r.state is state and r.loaded is not None}
    if found:
        found[ANY_VERSION] = found[max(found)]
    return found


def _why_not_version(name: str, version: int, entries: Sequence[IndexEntry]) -> CharoniaError:
    who = f"Request for unknown model: '{name}' version {version}"
    for entry in entries:
        if entry.version == version and entry.state in (State.LOADING, State.UNLOADING):
            return UnavailableError(f"{who} is not at ready state: it is {entry.state.lower()}")
        if entry.version == version:
            return UnavailableError(f"{who} is not at ready state{_reasons([entry])}")
    if any(entry.version is None and entry.state is State.LOADING for entry in entries):
        return UnavailableError(f"model '{name}' is loading")
    there = ", ".join(str(entry.version) for entry in entries if entry.version is not None) or "none"
    return NotFoundError(f"{who} is not found{_reasons(entries)}; versions: {there}")


def _reasons(entries: Iterable[IndexEntry]) -> str:
    reasons = [
        f"version {entry.version}: {entry.reason}" if entry.version is not None else entry.reason
        for entry in entries
        if entry.reason
    ]
    return f" ({'; '.join(reasons)})" if reasons else ""


def _entries(model: ModelRecord[V]) -> Iterable[IndexEntry]:
    if model.gone:
        return
    if model.versions and not (model.unusable and not model.is_loaded):
        yield from (_entry(model.name, record) for _, record in sorted(model.versions.items()))
    elif reason := model.unusable or model.reason:
        yield _without_version(model, State.UNAVAILABLE, reason)
    else:
        yield _without_version(model, State.LOADING if model.asked else None)


def _entry(model: ModelId, record: VersionRecord[V]) -> IndexEntry:
    return IndexEntry(model.name, record.version, record.state, record.reason, model.namespace)


def _without_version(model: ModelRecord[V], state: State | None, reason: str = "") -> IndexEntry:
    return IndexEntry(model.name.name, None, state, reason, model.name.namespace)
