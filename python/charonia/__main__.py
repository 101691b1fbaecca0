"""`python -m charonia` is the command `charonia`."""

from charonia.cli.main import charonia

charonia()
