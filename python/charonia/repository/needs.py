"""Which ensembles need which models: a graph of names."""

import threading
from collections.abc import Collection, Iterable, Iterator, Mapping


def in_layers(steps: Mapping[str, Collection[str]]) -> list[list[str]]:
    """Names in the order of their needs: each layer needs nothing but earlier ones, and names that are not among these.

    Names that need one another in a circle, and those that need them, are the last layer.
    """
    layers: list[list[str]] = []
    waiting = dict(steps)
    while waiting:
        layer = [name for name, needed in waiting.items() if not any(each in waiting for each in needed)]
        layers.append(layer or list(waiting))
        for name in layers[-1]:
            del waiting[name]
    return layers


def circle_of(name: str, steps: Mapping[str, Collection[str]]) -> tuple[str, ...]:
    """The way from `name` through what it needs back to it; () if there is none."""
    ways: list[tuple[str, ...]] = [(name,)]
    for way in ways:  # grows meanwhile
        if name in steps.get(way[-1], ()):
            return (*way, name)
        seen = {each for one in ways for each in one}
        ways += [(*way, each) for each in dict.fromkeys(steps.get(way[-1], ())) if each not in seen]
    return ()


class Needs:
    """The ensembles that shall serve, whether or not they do, each with the models of its steps. Any thread may ask.

    An ensemble that lost a step stays in it: it comes back with the step.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: dict[str, tuple[str, ...]] = {}
        self._asked: set[str] = set()

    def set(self, name: str, steps: Collection[str]) -> None:
        """The model `name` needs these; none if it is no ensemble."""
        with self._lock:
            if steps:
                self._steps[name] = tuple(dict.fromkeys(steps))
            else:
                self._steps.pop(name, None)

    def ask(self, names: Iterable[str]) -> None:
        """These were asked for by name, not only as steps of an ensemble."""
        with self._lock:
            self._asked.update(names)

    def drop(self, names: Iterable[str]) -> None:
        """These shall not serve any more."""
        with self._lock:
            for name in names:
                self._steps.pop(name, None)
                self._asked.discard(name)

    def of(self, name: str) -> tuple[str, ...]:
        """The models of its steps."""
        with self._lock:
            return self._steps.get(name, ())

    def ensembles_on(self, names: Collection[str]) -> list[str]:
        """The ensembles that need one of these models, also through other ensembles; in the order of their needs."""
        with self._lock:
            found = list(names)
            for each in found:  # grows meanwhile
                found += [user for user in self._users(each) if user not in found]
            users = {name: self._steps[name] for name in found if name not in names}
        return [name for layer in in_layers(users) for name in layer]

    def left_by(self, name: str) -> list[str]:
        """What only `name` needs, and what only that needs, and nobody asked for by name."""
        with self._lock:
            leaving = [name]
            for each in leaving:  # grows meanwhile
                leaving += [step for step in self._steps.get(each, ()) if self._is_left(step, leaving)]
            return leaving[1:]

    def _is_left(self, step: str, leaving: Collection[str]) -> bool:
        return step not in leaving and step not in self._asked and all(user in leaving for user in self._users(step))

    def _users(self, name: str) -> Iterator[str]:
        return (user for user, steps in self._steps.items() if name in steps)
