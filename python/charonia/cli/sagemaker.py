"""`serve`, the command that SageMaker starts a container with: its variables as flags of `tritonserver`.

python -m charonia.cli.sagemaker
"""

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

from charonia.core.errors import InvalidArgumentError, NotFoundError
from charonia.frontend.gateways import SageMakerSettings

_MODEL = "SAGEMAKER_TRITON_DEFAULT_MODEL_NAME"
_SINGLE = Path("/opt/ml/model")
# Each model of a multi-model endpoint brings its own repository; the server must have one at the start.
_EMPTY = Path("/tmp/sagemaker")

# (flag, variable, value without it; None for no flag).
_FLAGS: tuple[tuple[str, str, str | None], ...] = (
    ("--model-namespacing=", "SAGEMAKER_TRITON_DISABLE_MODEL_NAMESPACING", "true"),
    ("--sagemaker-port=", "SAGEMAKER_BIND_TO_PORT", None),
    ("--sagemaker-safe-port-range=", "SAGEMAKER_SAFE_PORT_RANGE", None),
    ("--allow-grpc=", "SAGEMAKER_TRITON_ALLOW_GRPC", "false"),
    ("--allow-metrics=", "SAGEMAKER_TRITON_ALLOW_METRICS", "false"),
    ("--metrics-port=", "SAGEMAKER_TRITON_METRICS_PORT", None),
    ("--grpc-port=", "SAGEMAKER_TRITON_GRPC_PORT", None),
    ("--buffer-manager-thread-count=", "SAGEMAKER_TRITON_BUFFER_MANAGER_THREAD_COUNT", None),
    ("--sagemaker-thread-count=", "SAGEMAKER_TRITON_THREAD_COUNT", None),
    ("--log-verbose=", "SAGEMAKER_TRITON_LOG_VERBOSE", None),
    ("--log-info=", "SAGEMAKER_TRITON_LOG_INFO", None),
    ("--log-warning=", "SAGEMAKER_TRITON_LOG_WARNING", None),
    ("--log-error=", "SAGEMAKER_TRITON_LOG_ERROR", None),
    ("--backend-config=python,shm-default-byte-size=", "SAGEMAKER_TRITON_SHM_DEFAULT_BYTE_SIZE", None),
    ("--backend-config=python,shm-growth-byte-size=", "SAGEMAKER_TRITON_SHM_GROWTH_BYTE_SIZE", None),
    ("--backend-config=tensorflow,version=", "SAGEMAKER_TRITON_TENSORFLOW_VERSION", None),
)


def variables_and_flags(
    environment: Mapping[str, str], single: Path = _SINGLE, empty: Path = _EMPTY
) -> tuple[dict[str, str], list[str]]:
    """What to set in the environment, and the arguments of the command.

    Args:
        single: where SageMaker puts the repository of an endpoint with one model.
        empty: the repository of an endpoint with many.

    Raises:
        InvalidArgumentError, NotFoundError: there is no telling which model to serve, or a variable makes no sense.
    """
    SageMakerSettings.of(environment)
    flags = ["--allow-sagemaker=true", "--allow-http=false", "--model-control-mode=explicit"]
    for flag, variable, otherwise in _FLAGS:
        value = environment.get(variable) or otherwise
        flags += [flag + value] if value is not None else []
    flags += shlex.split(environment.get("SAGEMAKER_TRITON_ADDITIONAL_ARGS", ""))
    ping = environment.get("SAGEMAKER_TRITON_OVERRIDE_PING_MODE", "")
    if environment.get("SAGEMAKER_MULTI_MODEL") == "true":
        empty.mkdir(parents=True, exist_ok=True)
        return {"SAGEMAKER_TRITON_PING_MODE": ping or "live"}, [*flags, f"--model-repository={empty}"]
    model = _single_model(environment.get(_MODEL, ""), single)
    variables = {"SAGEMAKER_TRITON_PING_MODE": ping or "ready", _MODEL: model}
    return variables, [*flags, f"--model-repository={single}", f"--load-model={model}"]


def _single_model(wanted: str, repository: Path) -> str:
    if (repository / "config.pbtxt").is_file():
        raise InvalidArgumentError(f"'{repository}' is the folder of a model; it must hold a folder for each model")
    there = sorted(each.name for each in repository.iterdir() if each.is_dir()) if repository.is_dir() else []
    if wanted and wanted not in there:
        raise NotFoundError(f"Directory with provided {_MODEL} {wanted} does not exist in {repository}")
    if not wanted and len(there) != 1:
        names = ", ".join(there) or "none"
        raise InvalidArgumentError(f"{_MODEL} must be set unless there is one model alone; there are: {names}")
    return wanted or there[0]


def main() -> int:
    from charonia.cli.main import serve

    try:
        variables, flags = variables_and_flags(os.environ)
    except (InvalidArgumentError, NotFoundError) as error:
        print(f"ERROR: {error}", file=sys.stderr)
        return 1
    if variables.get(_MODEL) != os.environ.get(_MODEL) and _MODEL in variables:
        print(f"WARNING: No {_MODEL} provided: serving the only model that there is, {variables[_MODEL]}")
    os.environ.update(variables)
    return serve("serve", flags)


if __name__ == "__main__":
    sys.exit(main())
