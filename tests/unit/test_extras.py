"""What messages and pages tell people to install can be installed."""

import re
import tomllib
from pathlib import Path

import charonia

PACKAGE = Path(charonia.__file__).parent
ROOT = Path(__file__).parents[2]


def test_every_extra_that_is_named_exists():
    there = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    files = [*PACKAGE.rglob("*.py"), *ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")]
    install = re.compile(r"pip install[^\n]*?(?:charonia|\.)\[(\w+)\]")
    named = {(path.name, extra) for path in files for extra in install.findall(path.read_text())}
    assert {(name, extra) for name, extra in named if extra not in there} == set()
    assert ("README.md", "cpu") in named
