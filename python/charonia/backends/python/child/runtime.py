"""What the API needs of the place where a model runs: its own process, or the server's."""

from __future__ import annotations

from typing import Any, Protocol

INFO, WARNING, ERROR, VERBOSE = "INFO", "WARNING", "ERROR", "VERBOSE"


class Runtime(Protocol):
    """One for each model instance."""

    model_dir: str

    def log(self, level: str, message: str, file: str, line: int) -> None:
        """Never blocks for long, never raises."""

    def call(self, operation: str, *arguments: Any) -> Any:
        """Ask the server and wait for the answer. Raises TritonModelException with the server's reason."""

    def cast(self, operation: str, *arguments: Any) -> None:
        """Tell the server something, without waiting until it has been taken; that is before the batch is answered."""
