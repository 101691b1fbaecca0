"""Ragged batches are not served yet: such a model loads with a warning, and every request is told so."""

from charonia.backends.base import Batch
from charonia.config.schema import ModelConfig
from charonia.core.errors import UnsupportedError


def ragged_fields(config: ModelConfig) -> list[str]:
    """What of a configuration needs ragged batches, as paths; without batches `allow_ragged_batch` means nothing."""
    found = [f"{field}[0]" for field in ("batch_input", "batch_output") if getattr(config, field)]
    if config.max_batch_size > 0:
        found += [f"input['{io.name}'].allow_ragged_batch" for io in config.input if io.allow_ragged_batch]
    return found


def refusal(config: ModelConfig) -> str:
    """One sentence for the log and the client; "" for a model without ragged batches."""
    fields = ragged_fields(config)
    if not fields:
        return ""
    what = f"ragged batches of ONNX models ({', '.join(fields)})"
    return f"model '{config.name}' can't be executed: {what} are not served yet"


class RaggedInstance:
    """Implements `BackendInstance` for a model that can't be executed."""

    healthy = True

    def __init__(self, text: str) -> None:
        self._text = text

    def start(self, batch: Batch) -> None:
        raise UnsupportedError(self._text)

    def close(self) -> None:
        """It holds nothing."""
