"""Which ensembles need which models: a graph of ids."""

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping

from charonia.core.model_id import ModelId, model_id


def in_layers(steps: Mapping[ModelId, Collection[ModelId]]) -> list[list[ModelId]]:
    """Names in the order of their needs: each layer needs nothing but earlier ones, and names that are not among these.

    Names that need one another in a circle, and those that need them, are the last layer.
    """
    layers: list[list[ModelId]] = []
    waiting = dict(steps)
    while waiting:
        layer = [name for name, needed in waiting.items() if not any(each in waiting for each in needed)]
        layers.append(layer or list(waiting))
        for name in layers[-1]:
            del waiting[name]
    return layers


def circle_of(name: ModelId, steps: Mapping[ModelId, Collection[ModelId]]) -> tuple[ModelId, ...]:
    """The way from `name` through what it needs back to it; () if there is none."""
    ways: list[tuple[ModelId, ...]] = [(name,)]
    for way in ways:  # grows meanwhile
        if name in steps.get(way[-1], ()):
            return (*way, name)
        seen = {each for one in ways for each in one}
        ways += [(*way, each) for each in dict.fromkeys(steps.get(way[-1], ())) if each not in seen]
    return ()


class Needs:
    """The ensembles that shall serve, whether or not they do, each with the models of its steps. Any thread may ask.

    An ensemble that lost a step stays in it: it comes back with the step. With namespaces, another model of the same
    name may take the place of a step; so an ensemble counts as one on all models that have the name of a step.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: dict[ModelId, tuple[ModelId, ...]] = {}
        self._asked: set[ModelId] = set()

    def set(self, name: ModelId, steps: Collection[ModelId]) -> None:
        """The model `name` needs these; none if it is no ensemble."""
        with self._lock:
            if steps:
                self._steps[name] = tuple(dict.fromkeys(steps))
            else:
                self._steps.pop(name, None)

    def ask(self, names: Iterable[ModelId]) -> None:
        """These were asked for by name, not only as steps of an ensemble."""
        with self._lock:
            self._asked.update(names)

    def drop(self, names: Iterable[ModelId]) -> None:
        """These shall not serve any more."""
        with self._lock:
            for name in names:
                self._steps.pop(name, None)
                self._asked.discard(name)

    def of(self, name: ModelId) -> tuple[ModelId, ...]:
        """The models of its steps."""
        with self._lock:
            return self._steps.get(name, ())

    def ensembles_on(self, names: Collection[ModelId]) -> list[ModelId]:
        """The ensembles that need one of these models, also through other ensembles; in the order of their needs."""
        with self._lock:
            found = list(names)
            for each in found:  # grows meanwhile
                found += [user for user in self._users(each) if user not in found]
            users = {name: self._steps[name] for name in found if name not in names}
        return [name for layer in in_layers(users) for name in layer]

    def needing(self, name: ModelId) -> list[ModelId]:
        """Of `ensembles_on`, those that need this very model, and those that need them."""
        needing = [name]
        for each in self.ensembles_on([name]):
            if any(step in needing for step in self.of(each)):
                needing.append(each)
        return needing[1:]

    def left_by(self, name: ModelId) -> list[ModelId]:
        """What only `name` needs, and what only that needs, and nobody asked for by name."""
        with self._lock:
            leaving = [name]
            for each in leaving:  # grows meanwhile
                leaving += [step for step in self._steps.get(each, ()) if self._is_left(step, leaving)]
            return leaving[1:]

    def _is_left(self, step: ModelId, leaving: Collection[ModelId]) -> bool:
        return (
            step not in leaving and step not in self._asked and all(user in leaving for user in self._exact_users(step))
        )

    def _exact_users(self, name: ModelId) -> Iterator[ModelId]:
        return (user for user, steps in self._steps.items() if name in steps)

    def _users(self, name: ModelId) -> Iterator[ModelId]:
        same = model_id(name).name
        return (user for user, steps in self._steps.items() if any(model_id(step).name == same for step in steps))
