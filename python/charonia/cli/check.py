"""`charonia check`: from its command line to a report and an exit code."""

import os
import sys
from collections.abc import Callable, Sequence

from charonia.cli.parse import find_flag, parse_flags
from charonia.core.errors import CharoniaError
from charonia.options import ServerOptions
from charonia.tools.check.report import Report

CLEAN, BROKEN, USAGE_ERROR = 0, 1, 2
_WIDTH, _LEAST_WIDTH, _MOST_WIDTH = 110, 60, 140


def run_check(words: Sequence[str], models: Sequence[str], *, load: bool, as_json: bool, strict: bool) -> int:
    """Print the report on standard output; 0 for a clean repository, 1 for errors, 2 for a wrong command line.

    Args:
        words: repositories, and flags of `charonia serve`.
        models: only these, all when empty.
        strict: warnings count as errors.
    """
    try:
        options = _options(words)
    except CharoniaError as error:
        print(f"charonia check: {error}\nTry 'charonia check --help'.", file=sys.stderr)
        return USAGE_ERROR
    from charonia.tools.check.run import check

    report = check(options, models, load=load, on_model=_progress() if load else lambda name: None)
    print(_shown(report, as_json))
    is_broken = report.count(errors=True) or (strict and report.findings)
    return BROKEN if is_broken else CLEAN


def _options(words: Sequence[str]) -> ServerOptions:
    """A launch line of the server, with the repositories also as plain words.

    Raises:
        CharoniaError: an unknown flag, or no repository.
    """
    flags: list[str] = []
    rest = list(reversed(words))
    while rest:
        word = rest.pop()
        if not word.startswith("-"):
            flags.append(f"--model-repository={word}")
            continue
        flags.append(word)
        takes_value = find_flag(word.lstrip("-").partition("=")[0]).convert is not None
        if takes_value and "=" not in word and rest:
            flags.append(rest.pop())
    return parse_flags(flags).options


def _shown(report: Report, as_json: bool) -> str:
    from charonia.tools.check import as_json as machine
    from charonia.tools.check import as_text as human

    if as_json:
        return machine.as_json(report)
    is_terminal = sys.stdout.isatty()
    width = os.get_terminal_size(sys.stdout.fileno()).columns if is_terminal else _WIDTH
    color = is_terminal and "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"
    return human.as_text(report, human.Style(min(max(width, _LEAST_WIDTH), _MOST_WIDTH), color))


def _progress() -> Callable[[str], None]:
    """On a terminal, the model that is being loaded, in one line that goes away."""
    if not sys.stderr.isatty():
        return lambda name: None
    return lambda name: print(f"\r\x1b[K{f'loading {name} …' if name else ''}", end="", file=sys.stderr, flush=True)
