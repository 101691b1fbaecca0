"""When a version and a server are ready. Pure functions.

`docs/readiness.md` shows them as truth tables, which a test compares with this code.
"""

from collections.abc import Iterable

from charonia.repository.states import State


def version_ready(state: State, live_instances: int) -> bool:
    """A version is ready in state READY while at least one of its instances is healthy."""
    return state is State.READY and live_instances > 0


def server_ready(*, live: bool, loaded: bool, exiting: bool, strict: bool, wanted: Iterable[bool]) -> bool:
    """Ready once the first load is over, until the stop begins; strictly only while every wanted model is ready.

    Args:
        loaded: the models of the start have been tried, all of them.
        strict: `--strict-readiness`.
        wanted: for each version of each model that was asked for, and for each model of which none could
            be chosen, whether it is ready.
    """
    return live and loaded and not exiting and (not strict or all(wanted))
