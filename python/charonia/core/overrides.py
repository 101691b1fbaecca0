"""What a load request may put in place of a model's files."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class LoadOverrides:
    """The parameters of a load request.

    Attributes:
        config_json: the configuration to use instead of any file, as JSON; None for the model's own.
        files: contents by path within the model folder, as `1/model.onnx`; when there are any, they are all that the
            model folder holds. Only with `config_json`.
    """

    config_json: str | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether there is anything to override."""
        return self.config_json is not None or bool(self.files)


NO_OVERRIDES = LoadOverrides()
