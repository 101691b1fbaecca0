"""Loads and unloads, one at a time on each model and in the order in which they were asked for.

What is loaded is remembered by what it was loaded from, so that a later load touches only what has changed since.
The models of an ensemble's steps are loaded before it, and taken out of service after it; so one operation has the
turns of all of them.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from charonia.core.errors import CharoniaError, InvalidArgumentError, UnavailableError
from charonia.core.log import Log
from charonia.core.model_id import ModelId
from charonia.core.text import shown
from charonia.engine.model import ModelVersion
from charonia.repository.ensemble_load import EnsembleLoad
from charonia.repository.lifecycle import ModelLifecycle
from charonia.repository.loader import ModelLoader, Planned
from charonia.repository.model_load import ModelLoad
from charonia.repository.needs import Needs, circle_of, in_layers
from charonia.repository.source import Look, ModelSource
from charonia.repository.turns import Turn, Turns


@dataclass(frozen=True, slots=True)
class _Gathered:
    """The models of one load: those that were named, and what they need."""

    sources: Mapping[ModelId, ModelSource]
    plans: dict[ModelId, Planned]

    def release(self) -> None:
        """Let go of files that are in no repository's folder; what was loaded from them holds them too."""
        for source in self.sources.values():
            if source.folder is not None:
                source.folder.release()
        for plan in self.plans.values():
            if isinstance(plan, ModelLoad):
                plan.release()


class ModelOperations:
    """All operations on the models of one server."""

    def __init__(self, lifecycle: ModelLifecycle[ModelVersion], loader: ModelLoader, log: Log) -> None:
        self._lifecycle = lifecycle
        self._loader = loader
        self._log = log
        self._turns = Turns()
        self._needs = Needs()
        self._served: dict[ModelId, ModelLoad] = {}
        self._ensembles: dict[ModelId, ModelSource] = {}
        self._stopping = False

    def load_all(self, names: Sequence[ModelId], look: Look) -> None:
        """The load of the start, which knows how many instances will share the cores."""
        self._load(names, look, None)

    def load(self, names: Sequence[ModelId], look: Look, within: Turn | None = None) -> None:
        """When it is their turn, load what `look` gives, and what it needs. What fails keeps what it had.

        Args:
            names: one model, or those of one name in several namespaces.
            within: the turn of an operation that waits for this one.

        Raises:
            InvalidArgumentError: with the reason why it can't be loaded.
            UnavailableError: the server is stopping.
            CharoniaError: what `look` raised of the model itself.
        """

        def look_unless_stopping(each: ModelId, served: ModelSource | None) -> ModelSource:
            if self._stopping:
                raise UnavailableError(f"model '{shown(each)}' is not loaded: the server is stopping")
            return look(each, served)

        gathered, failed = self._load(names, look_unless_stopping, within)
        for name in failed.keys() & set(names):
            reason = failed[name]
            error = UnavailableError if self._stopping else InvalidArgumentError
            if gathered.sources[name].config_json is not None:
                reason = f"failed to load it with the configuration of the request: {reason}"
            raise error(f"load failed for model '{name}': {reason}")

    def unload(self, name: ModelId, *, dependents: bool = False, within: Turn | None = None) -> None:
        """Take it out of service, and the ensembles on it; what they accepted is answered afterwards.

        Args:
            dependents: also what only this ensemble needs.
        """
        self._unload(name, dependents, within, is_gone=False)

    def forget(self, name: ModelId, *, dependents: bool = False, within: Turn | None = None) -> None:
        """As `unload`, for a model that no repository has any more."""
        self._unload(name, dependents, within, is_gone=True)

    def busy(self, name: ModelId) -> bool:
        """Whether an operation on the model is in work."""
        return self._turns.busy(name)

    def stop(self) -> None:
        """Begin no more loads."""
        self._stopping = True
        self._loader.stop()

    def announce_end(self) -> None:
        """Everything is about to be unloaded, by the stop of the server: the agents of models are told."""
        for plan in [*self._served.values()]:
            if plan.agents is not None:
                plan.agents.unload()

    def close(self) -> None:
        """Let go of what was loaded; after it was unloaded."""
        for name in [*self._served]:
            self._served.pop(name).release()

    def _load(
        self, names: Sequence[ModelId], look: Look, within: Turn | None
    ) -> tuple[_Gathered, Mapping[ModelId, str]]:
        """Gives what was loaded, and by name why a model was not."""
        touched = self._with_ensembles(names)
        while True:
            with self._turns.of(*touched, within=within) as turn:
                gathered = self._gather(names, look, turn)
                try:
                    needed = self._with_ensembles(gathered.plans)
                    if set(needed) <= set(turn.names):
                        self._needs.ask(names)
                        return gathered, self._run(gathered, turn)
                finally:
                    gathered.release()
            # What a model needs is known only once it was looked at: look again when the turn of that has come too.
            touched = [*touched, *needed]

    def _with_ensembles(self, names: Collection[ModelId]) -> list[ModelId]:
        return [*names, *self._needs.ensembles_on(names)]

    def _gather(self, names: Sequence[ModelId], look: Look, turn: Turn) -> _Gathered:
        gathered = _Gathered(sources := {}, {})
        waiting = list(names)
        for name in waiting:  # grows meanwhile
            if name in sources:
                continue
            before = self._served.get(name)
            try:
                sources[name] = look(name, before.source if before is not None else None)
            except CharoniaError:
                if name in names:
                    gathered.release()
                    raise
                continue  # the ensemble that needs it says that it is not there, if nothing serves
            gathered.plans[name] = plan = self._loader.plan(sources[name], before, turn)
            waiting += plan.steps if isinstance(plan, ModelLoad) else ()
        return gathered

    def _run(self, gathered: _Gathered, turn: Turn) -> dict[ModelId, str]:
        plans = gathered.plans
        steps = {name: plan.steps if isinstance(plan, ModelLoad) else () for name, plan in plans.items()}
        for name in steps:
            if circle := circle_of(name, steps):
                plans[name].release()  # type: ignore[union-attr]  # only an ensemble needs anything
                plans[name] = InvalidArgumentError(f"ensemble '{name}' needs itself: {' → '.join(circle)}")
        self._loader.begin(plans)
        failed: dict[ModelId, str] = {}
        for layer in in_layers(steps):
            failed |= self._load_layer({name: plans[name] for name in layer}, turn)
        self._refresh(list(plans), turn)
        return failed

    def _load_layer(self, plans: Mapping[ModelId, Planned], turn: Turn) -> Mapping[ModelId, str]:
        """Models of which none needs another."""
        failed = self._lifecycle.load(plans, in_pool=turn.within is None)
        for name, plan in plans.items():
            if isinstance(plan, ModelLoad):
                self._remember(name, plan, is_served=name not in failed)
            self._loader.keep(name, self._served.get(name))
        return failed

    def _remember(self, name: ModelId, plan: ModelLoad, *, is_served: bool) -> None:
        if is_served:
            plan.hold()
            before, self._served[name] = self._served.get(name), plan
            if plan.agents is not None:
                plan.agents.complete()
            if before is not None:
                if before.agents is not None and before.agents is not plan.agents:
                    before.agents.unload()
                before.release()
        elif plan.agents is not None:
            plan.agents.fail()
        self._needs.set(name, self._served.get(name, plan).steps)
        if plan.steps:
            self._ensembles[name] = plan.source

    def _refresh(self, changed: Sequence[ModelId], turn: Turn) -> None:
        """The ensembles on models that may have changed: each is kept, comes back, is loaded anew, or goes."""
        for name in self._needs.ensembles_on(changed):
            served, models = self._served.get(name), self._lifecycle.directory.models
            steps = self._loader.resolved(name, self._needs.of(name))
            has_moved = steps != self._needs.of(name)
            self._needs.set(name, steps)
            lacking = next((step for step in steps if step not in models or not models[step].serving), "")
            if lacking and served is not None:
                self._withdraw(name, f"its step '{lacking}' does not serve any more")
            if lacking or (served is not None and not has_moved and self._still_fits(name, served)):
                continue
            self._load_again(name, served, turn)

    def _load_again(self, name: ModelId, served: ModelLoad | None, turn: Turn) -> None:
        plan = self._loader.plan(self._ensembles[name], served, turn)
        try:
            self._loader.begin({name: plan})
            if self._load_layer({name: plan}, turn) and served is not None:
                self._withdraw(name, "its steps have changed, and do not fit any more")
        finally:
            if isinstance(plan, ModelLoad):
                plan.release()

    def _still_fits(self, name: ModelId, served: ModelLoad) -> bool:
        versions = self._lifecycle.directory.models[name].versions
        return isinstance(served, EnsembleLoad) and bool(versions) and all(served.fits(each) for each in versions)

    def _unload(self, name: ModelId, dependents: bool, within: Turn | None, *, is_gone: bool) -> None:
        touched: list[ModelId] = [name]
        while True:
            with self._turns.of(*touched, within=within) as turn:
                ensembles = self._needs.ensembles_on([name])
                left = self._needs.left_by(name) if dependents else []
                touched = [name, *ensembles, *left]
                if set(touched) <= set(turn.names):
                    self._take_out(name, self._needs.needing(name), left, is_gone)
                    # With namespaces, those that lost it may go on with another model of its name.
                    return self._refresh([name], turn)

    def _take_out(self, name: ModelId, ensembles: Sequence[ModelId], left: Sequence[ModelId], is_gone: bool) -> None:
        """In an order in which nothing goes before what needs it."""
        self._needs.drop([name, *left])
        out: list[ModelId] = []
        for each in reversed(ensembles):
            if each in self._served:
                self._withdraw(each, f"its step '{name}' is unloaded", after=out)
                out.append(each)
        for each in (name, *left):
            self._drop(each)
            self._ensembles.pop(each, None)
            leave = self._lifecycle.forget if is_gone and each == name else self._lifecycle.unload
            leave(each, after=out)
            out.append(each)

    def _withdraw(self, name: ModelId, why: str, after: Sequence[ModelId] = ()) -> None:
        """An ensemble that can't serve without its steps; it comes back with them."""
        self._log.about(name).info(f"ensemble '{name}' is unloaded: {why}")
        self._drop(name)
        self._lifecycle.unload(name, after=after)

    def _drop(self, name: ModelId) -> None:
        before = self._served.pop(name, None)
        if before is not None:
            if before.agents is not None:
                before.agents.unload()
            before.release()
        self._loader.keep(name, None)
