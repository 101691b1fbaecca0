"""Lay out the language model and serve it: `python -m examples.language.serve [flags of charonia serve]`."""

import os
import sys
from pathlib import Path

from examples.language.layout import lay_out

REPOSITORY = Path(__file__).parents[2] / "language-repository"

if __name__ == "__main__":
    lay_out(REPOSITORY)
    command = [sys.executable, "-m", "charonia", "serve", f"--model-repository={REPOSITORY}", *sys.argv[1:]]
    os.execv(sys.executable, command)
