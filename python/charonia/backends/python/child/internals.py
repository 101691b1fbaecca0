"""`c_python_backend_utils`: the same API under the name of Triton's internal module, and a look into shared memory."""

from __future__ import annotations

from types import ModuleType
from typing import Callable

INTERNAL_NAME = "c_python_backend_utils"


class SharedMemory:
    """What tests of leaks look at: the same number before and after means that nothing was left behind."""

    def __init__(self, free_bytes: Callable[[], int]) -> None:
        self._free_bytes = free_bytes

    def free_memory(self) -> int:
        """Free bytes in the memory that this process shares with the server for outputs; 0 for inline models."""
        return self._free_bytes()


def build_internals(api: ModuleType, free_bytes: Callable[[], int]) -> ModuleType:
    """The module for one model, over its `triton_python_backend_utils`."""
    module = ModuleType(INTERNAL_NAME, "Triton's internal module for models, as Charonia serves it.")
    module.__dict__.update({name: value for name, value in vars(api).items() if not name.startswith("__")})
    module.__dict__["shared_memory"] = SharedMemory(free_bytes)
    return module
