"""What an agent is, and what it is given. The stages are those of Triton's repository agents."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from charonia.core.errors import InvalidArgumentError

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig


class AgentModel:
    """One load of one model, as one of its agents sees it: the same object from `load` to the last stage.

    Attributes:
        name: of the model.
        parameters: of this agent, from the model's configuration.
        location: the model's folder, as the agent before left it. It is not the agent's to write to.
        config: what the configuration in `location` says, or that of a load request; nothing is filled in. None where
            there is none, or it can't be read.
        state: whatever the agent wants to keep.
    """

    def __init__(
        self,
        name: str,
        parameters: Mapping[str, str],
        location: Path,
        config: "ModelConfig | None",
        make_folder: Callable[[], Path],
    ) -> None:
        self.name = name
        self.parameters = parameters
        self.location = location
        self.config = config
        self.state: object = None
        self._make_folder = make_folder
        self._replacement: Path | None = None
        self._is_loading = True

    def acquire_location(self) -> Path:
        """A new, empty folder named by the model. It is removed when nothing of this load is served any more.

        Raises:
            InternalError: it can't be made.
        """
        return self._make_folder()

    def replace_location(self, folder: Path) -> None:
        """Have the model loaded from `folder` instead, by the next agent and by the server. Only during `load`.

        A folder of the agent's own, rather than one of `acquire_location`, must stay as it is until the last stage.

        Raises:
            InvalidArgumentError: `load` is over, or there is no such folder.
        """
        if not self._is_loading:
            raise InvalidArgumentError(f"the folder of model '{self.name}' can only be replaced while `load` runs")
        if not folder.is_dir():
            raise InvalidArgumentError(
                f"the folder of model '{self.name}' can't be '{folder}': there is no such folder"
            )
        self._replacement = folder.absolute()

    def end_load(self) -> Path:
        """For the server: `load` is over; gives the folder that it left."""
        self._is_loading = False
        return self._replacement or self.location


class RepositoryAgent:
    """The base of agents. One object of it serves every model of a server that asks for it.

    A model's life is `load`, `load_complete`, `unload`, `unload_complete`, or `load`, `load_fail`; with a new load of a
    served model both lives overlap. Calls for one load come one after the other, those for different loads may come at
    the same time, each on a thread of its own. Stages that are not overridden do nothing.

    What is raised in `load` is the reason why the model is not loaded; in any other stage it is only logged. The
    server waits for `load` however long it takes; for others it waits a little, and then goes on without them.
    """

    def load(self, model: AgentModel) -> None:
        """The model is about to be loaded, before its configuration is completed. It may be refused or replaced."""

    def load_complete(self, model: AgentModel) -> None:
        """It is loaded, and serves."""

    def load_fail(self, model: AgentModel) -> None:
        """It is not loaded: by an agent, by a fault of the model, or because it was looked at again."""

    def unload(self, model: AgentModel) -> None:
        """It gets no new requests: it is being unloaded, or another load of it has taken its place."""

    def unload_complete(self, model: AgentModel) -> None:
        """Nothing of this load is served any more."""

    def close(self) -> None:
        """The server ends; after the last stage of every model."""
