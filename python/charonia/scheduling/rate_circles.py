"""Calls between models that would wait for one another through resources of the rate limiter, found before they do.

An instance that waits for another model's answer holds its resources meanwhile. Who executes and waits for nobody
finishes; with what is free then, some calls are served, and so those finish that wait for them; and so on. A call that
is not served at the end of this would never be. Everything here is called under the limiter's lock.
"""

from collections.abc import Callable, Iterable, Sequence, Set

from charonia.core.errors import CharoniaError, InvalidArgumentError, UnavailableError
from charonia.core.request import InferRequest
from charonia.scheduling.rate_share import Amounts, Key, Share, ShareGroup


class Circles:
    """One look at who executes.

    Args:
        totals: how much there is.
    """

    def __init__(self, shares: Iterable[Share], totals: Amounts) -> None:
        self._executing = [share for share in shares if share.holds]
        self._totals = totals
        self._finishing = self._find_finishing()

    def _find_finishing(self) -> Set[Share]:
        finishing: set[Share] = set()
        waiting = self._executing
        while True:
            more = [share for share in waiting if all(self._ends(*call, finishing) for call in share.calls)]
            if not more:
                return finishing
            finishing.update(more)
            waiting = [share for share in waiting if share not in finishing]

    def _ends(self, call: InferRequest, group: ShareGroup, finishing: Set[Share]) -> bool:
        if call.settled:
            return True
        server = next((share for share in group.shares if any(call is each for each in share.requests)), None)
        return server in finishing if server is not None else self._is_servable(group, finishing)

    def _is_servable(self, group: ShareGroup, finishing: Set[Share]) -> bool:
        """Whether an instance of the group can have its turn once these have finished."""
        held: dict[Key, int] = {}
        for share in self._executing:
            if share not in finishing:
                for key, count in share.needs.items():
                    held[key] = held.get(key, 0) + count
        return any(
            (not share.holds or share in finishing)
            and all(held.get(key, 0) + count <= self._totals[key] for key, count in share.needs.items())
            for share in group.shares
        )

    def serves(self, group: ShareGroup) -> bool:
        """Whether a call of this model will be served."""
        return self._is_servable(group, self._finishing)

    def error(self, group: ShareGroup, line: Sequence[Share]) -> CharoniaError:
        """For a call that would not be. `line`: the instances that wait for it, one through the other.

        Where they alone are in the way it is the models' fault, else a moment's.
        """
        held = self._held(group) or "its own instances wait for such calls too"
        text = (
            f"model '{group.model}' would wait for ever: {line[0].name} of model '{line[0].group.model}', which calls "
            f"it, waits for the answer, and meanwhile {held}; "
            "give more of the resource by --rate-limit-resource, or take it out of rate_limiter of one of the models"
        )
        others = {share for share in self._executing if share not in line}
        return UnavailableError(text) if self._is_servable(group, others) else InvalidArgumentError(text)

    def _held(self, group: ShareGroup) -> str:
        wanted = {key for share in group.shares for key in share.needs}
        return ", ".join(
            f"{share.name} holds {count} of the {self._totals[key]} of resource '{key[1]}'"
            for share in self._executing
            if share not in self._finishing
            for key, count in share.needs.items()
            if key in wanted
        )


def line_of(caller: Share, caller_of: Callable[[InferRequest], Share | None]) -> Sequence[Share]:
    """The caller, who waits for it, and so on."""
    line = [caller]
    for share in line:  # it grows meanwhile
        for request in share.requests:
            above = caller_of(request)
            if above is not None and above not in line:
                line.append(above)
    return line
