"""When a version, a model and a server are ready. Pure functions.

`docs/readiness.md` shows them as truth tables, which a test compares with this code.
"""

from collections.abc import Iterable

from charonia.engine.model import ModelVersion
from charonia.repository.directory import Directory
from charonia.repository.states import ModelRecord, State, V


def version_ready(state: State, live_instances: int) -> bool:
    """A version is ready in state READY while at least one of its instances is healthy."""
    return state is State.READY and live_instances > 0


def model_ready(model: ModelRecord[V]) -> list[bool]:
    """For each version whether it is ready, those aside that were unloaded or replaced; without any, that it is not."""
    counting = (record for record in model.versions.values() if not record.is_out)
    return [
        record.loaded is not None and version_ready(record.state, record.loaded.live_instances) for record in counting
    ] or [False]


def server_ready(*, live: bool, loaded: bool, exiting: bool, strict: bool, wanted: Iterable[bool]) -> bool:
    """Ready once the first load is over, until the stop begins; strictly only while every wanted model is ready.

    Args:
        loaded: the models of the start have been tried, all of them.
        strict: `--strict-readiness`.
        wanted: for each version of each model that was asked for, and for each model of which none could
            be chosen, whether it is ready.
    """
    return live and loaded and not exiting and (not strict or all(wanted))


def readiness_table(models: Directory[ModelVersion]) -> dict[tuple[str, str], tuple[bool, int, bool]]:
    """What the wire answers from, by (name, version), "" for the default: ready, where instances wait, decoupled."""
    # A name that several have is there, and is not ready whatever they are.
    rows: dict[tuple[str, str], tuple[bool, int, bool]] = {
        (model.name, ""): (False, 0, False) for model in models.models if model.name not in models.named
    }
    for name, model in models.named.items():
        for entry in model.entries:
            rows[name, ""] = (False, 0, False)
            rows[name, "" if entry.version is None else str(entry.version)] = (False, 0, False)
        for version in model.versions:  # the last one is the default
            row = (version.live_instances > 0, version.route, version.decoupled)
            rows[name, version.version_text] = rows[name, ""] = row
    return rows
