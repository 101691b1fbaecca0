"""The two commands. `tritonserver` takes Triton's flags directly; `charonia serve` takes the same ones.

Nothing heavy is imported before it is needed: `charonia --help` must not wait for numpy.
"""

import os
import sys
from collections.abc import Sequence
from typing import NoReturn

USAGE_ERROR = 1  # as Triton, whose scripts test for it
_HELP = {"-h", "--help", "--hel", "--he"}  # a shorter beginning could be --http-port


def tritonserver() -> NoReturn:
    """Entry point of the `tritonserver` command."""
    sys.exit(serve("tritonserver", sys.argv[1:]))


def charonia() -> NoReturn:
    """Entry point of the `charonia` command."""
    arguments = sys.argv[1:]
    if arguments[:1] == ["serve"]:
        sys.exit(serve("charonia serve", arguments[1:]))  # the way that has to be quick: without click
    from charonia.cli.group import group

    group(prog_name="charonia")
    raise AssertionError("click exits by itself")


def serve(command: str, arguments: Sequence[str]) -> int:
    """Run a server until it is told to stop; gives the exit code."""
    from charonia.cli.parse import parse_flags
    from charonia.core.errors import CharoniaError

    if _HELP.intersection(arguments):
        return _help(command)
    if list(arguments) == ["--version"]:
        return _version()
    try:
        parsed = parse_flags(arguments, os.environ)
    except CharoniaError as error:
        return _usage_error(command, str(error))
    from charonia.cli.serve import run_server

    return run_server(parsed)


def _help(command: str) -> int:
    from charonia.cli.usage import usage

    try:
        print(usage(command), flush=True)
    except BrokenPipeError:  # whoever reads, such as `head`, has seen enough; nor shall the exit try to write the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _version() -> int:
    from charonia import __version__

    print(f"charonia {__version__}")
    return 0


def _usage_error(command: str, message: str) -> int:
    print(f"{command}: {message}\nTry '{command} --help' for all flags.", file=sys.stderr)
    return USAGE_ERROR
