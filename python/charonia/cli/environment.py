"""What the environment says where the command line says nothing: Vertex AI starts containers with such variables."""

from collections.abc import Mapping
from typing import Any

from charonia.cli.values import integer
from charonia.core.errors import InvalidArgumentError

MODE = "AIP_MODE"
PORT = "AIP_HTTP_PORT"
STORAGE = "AIP_STORAGE_URI"
_PREDICTION = "PREDICTION"


def options_of_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    """Options by name. On Vertex AI its own door is open, and the others are closed.

    Raises:
        InvalidArgumentError: a port that is none.
    """
    options: dict[str, Any] = {}
    if environment.get(MODE) == _PREDICTION:
        options |= {"allow_vertex_ai": True, "allow_http": False, "allow_grpc": False}
    if port := environment.get(PORT):
        try:
            options["vertex_ai_port"] = integer(port)
        except InvalidArgumentError as error:
            raise InvalidArgumentError(f"{PORT}: {error}") from None
    if storage := environment.get(STORAGE):
        options["model_repository"] = (storage,)
    return options
