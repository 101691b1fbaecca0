"""The stand-in for CUDA's driver (`standin_cuda.c`): built, and put in the driver's place."""

import gc
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from charonia.backends.python.child import cuda

SOURCE = Path(__file__).with_name("standin_cuda.c")
COMPILER = shutil.which("cc") or shutil.which("gcc")


def build(folder: Path) -> Path:
    """The library. Skips the test where there is no C compiler."""
    if COMPILER is None:
        pytest.skip("no C compiler")
    made = folder / cuda.LIBRARY
    subprocess.run([COMPILER, "-shared", "-fPIC", "-O1", "-o", made, SOURCE], check=True)
    return made


@contextmanager
def in_place(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The library in this process and in those started from now on."""
    monkeypatch.setenv("LD_LIBRARY_PATH", str(library.parent))
    monkeypatch.setattr(cuda, "LIBRARY", str(library))
    cuda._driver.cache_clear()
    yield
    gc.collect()
    cuda._driver.cache_clear()
