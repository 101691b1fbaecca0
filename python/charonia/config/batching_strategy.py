"""`parameters { key: "batching_strategy" … }`: a user's own word on what may join a batch.

Triton's parameter for it, TRITON_BATCH_STRATEGY_PATH, names a C++ library there. Here both name a Python file, and the
first one also an entry point.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from charonia.config.report import Report

if TYPE_CHECKING:
    from charonia.config.schema import ModelConfig

STRATEGY = "batching_strategy"
TRITON_PATH = "TRITON_BATCH_STRATEGY_PATH"
TRITON_LIBRARY = "batchstrategy.so"
"""What Triton loads without being asked when it lies in the model's folder or its version's."""

DEFAULT_FILE = "batching.py"
IN_PYTHON = (
    f"write the strategy in Python: class BatchingStrategy with start_batch, may_join and finish_batch in "
    f"{DEFAULT_FILE} beside the model, and "
    f'parameters {{ key: "{STRATEGY}" value {{ string_value: "{DEFAULT_FILE}" }} }}'
)


@dataclass(frozen=True, slots=True)
class StrategySetting:
    """The parameter and what it names: a Python file, or else an entry point."""

    key: str
    value: str

    @property
    def path(self) -> str:
        """Of the field that says it."""
        return f'parameters["{self.key}"].string_value'

    @property
    def is_file(self) -> bool:
        return self.value.endswith(".py")


def batching_strategy(config: "ModelConfig") -> StrategySetting | None:
    """The strategy of a valid configuration, None for none."""
    for key in (STRATEGY, TRITON_PATH):
        if key in config.parameters:
            return StrategySetting(key, config.parameters[key].string_value)
    return None


def check_batching_strategy(config: "ModelConfig", report: Report) -> None:
    setting = batching_strategy(config)
    if setting is None:
        return
    key, value = setting.key, setting.value
    if key == STRATEGY and TRITON_PATH in config.parameters:
        report.error(f'parameters["{TRITON_PATH}"]', f"{STRATEGY} and {TRITON_PATH} are both given", "keep one of them")
    if not value:
        report.error(f'parameters["{key}"]', f"{key} has no string_value", f'write string_value: "{DEFAULT_FILE}"')
    elif value.endswith(".so") or (key == TRITON_PATH and not setting.is_file):
        message = f'{key} is "{value}": batching strategies that are C++ libraries can\'t be used here'
        report.error(setting.path, message, IN_PYTHON)
    if config.HasField("sequence_batching"):
        message = f"{key} is for dynamic batching, and the model has sequence_batching"
        report.error(f'parameters["{key}"]', message, "remove one of the two")
    elif not config.HasField("dynamic_batching"):
        message = f"{key} has no effect: without dynamic_batching no requests are joined"
        report.warn(f'parameters["{key}"]', message, "write dynamic_batching { }, or remove the parameter")
