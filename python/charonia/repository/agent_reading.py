"""A model as its repository agents leave it: they run, and what they made of the folder is read."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from charonia.config.model_config import ConfigOptions, config_path
from charonia.config.pbtxt import LIMIT_BYTES, parse_pbtxt
from charonia.core.errors import CharoniaError
from charonia.core.files import read_regular
from charonia.repository.agent_runs import AgentRun
from charonia.repository.inspection import ModelReading, read_model
from charonia.repository.scan import look_at
from charonia.repository.source import ModelSource

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig
    from charonia.repository.model_load import LoaderParts, ModelLoad
    from charonia.repository.temporary import TemporaryFolder


@dataclass(frozen=True, slots=True)
class AgentReading:
    """A model's configuration and folder, and what its agents did for it.

    Attributes:
        run: held by whoever has this made; None for a model without agents.
    """

    reading: ModelReading
    run: AgentRun | None = None

    def release(self) -> None:
        """It comes to nothing."""
        if self.run is not None:
            self.run.release()


def read_with_agents(
    parts: "LoaderParts",
    reading: ModelReading,
    source: ModelSource,
    folder: "TemporaryFolder | None",
    before: "ModelLoad | None",
    options: ConfigOptions,
) -> AgentReading:
    """Have the agents that `reading` asks for do their `load`, and read what they left.

    Args:
        folder: where the files are brought to, if not in a folder of a repository.
        before: what the model that serves was loaded by: where nothing has changed since, no agent runs again. Files
            that are brought are other ones each time, and looked at each time.

    Raises:
        CharoniaError: an agent refuses the model, or can't be had.
    """
    earlier = before.agents if before and folder is None and _is_same(source, before.source) else None
    if before is not None and earlier is not None and earlier.try_hold():
        return AgentReading(before.reading, earlier)
    if folder is not None:
        folder.bring_shared(parts.facts.log)  # a model may have no version before its agents have run
        for version in reading.model.versions:
            folder.bring(version, parts.facts.log)
    model, config = reading.model, reading.loaded.config

    def read_config(where: Path) -> "ModelConfig | None":
        path = config_path(where, options.config_name)
        if options.override_json is not None:
            return config
        try:
            return parse_pbtxt(read_regular(path, LIMIT_BYTES + 1), str(path)).config
        except (OSError, CharoniaError):
            return None

    run = parts.agents.begin(model.name, model.path, config, read_config, parts.facts.log)
    try:
        return AgentReading(_read_moved(run, reading, options) if run.has_moved else reading, run)
    except BaseException:
        run.release()
        raise


def _is_same(now: ModelSource, before: ModelSource) -> bool:
    same_files = now.same_folder(before) and now.fingerprint == before.fingerprint
    return same_files and now.config_json == before.config_json


def _read_moved(run: AgentRun, reading: ModelReading, options: ConfigOptions) -> ModelReading:
    """The model in the folder that the agents left: with the configuration there, or without one its own."""
    found = look_at(run.location, reading.model.repository)
    found = replace(reading.model, path=found.path, versions=found.versions, warnings=found.warnings)
    config_dir = _config_folder(run.location, reading.model.path, options)
    return read_model(found, replace(options, config_dir=config_dir))


def _config_folder(folder: Path, original: Path, options: ConfigOptions) -> Path:
    return folder if config_path(folder, options.config_name).is_file() else original
