"""The configuration of a model as it is in force."""

from typing import TYPE_CHECKING

from charonia.control.protocols import Models

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig


class Configuration:
    """Model configurations with every default filled in."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def of_model(self, name: str, version: int) -> "ModelConfig":
        """Raises as `ModelDirectory.find`. Do not change the message: it is the one in use."""
        return self._models().find(name, version).config
