"""Features of the protocol that have their routes and methods, and no implementation yet."""

from enum import StrEnum
from typing import NoReturn

from charonia.control.protocols import Models
from charonia.core.errors import UnsupportedError
from charonia.core.request import ANY_VERSION


class Feature(StrEnum):
    TRACE = "trace settings"


class AbsentFeatures:
    """Refuses what is not there yet, by name; an unknown model is still an unknown model."""

    def __init__(self, models: Models) -> None:
        self._models = models

    def refuse(self, feature: Feature, model: str = "", version: int = ANY_VERSION) -> NoReturn:
        """Raises UnsupportedError, or as `ModelDirectory.find` when a model is named."""
        if model:
            self._models().find(model, version)
        raise UnsupportedError(f"{feature} can't be used: this server does not have the feature yet")
