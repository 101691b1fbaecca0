"""Checks on a real GPU: skipped, one and all, where none is visible."""

import pytest

from charonia.backends.gpus import visible_gpus


def pytest_collection_modifyitems(items):
    if visible_gpus():
        return
    skip = pytest.mark.skip(reason="no GPU is visible")
    for item in items:
        if "tests/gpu" in item.path.as_posix():
            item.add_marker(skip)
