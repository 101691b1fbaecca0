"""From a command line to ServerOptions, as getopt_long reads it: `--a=b`, `--a b`, unambiguous beginnings of names."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from charonia.cli.backend_settings import idle_settings
from charonia.cli.environment import options_of_environment
from charonia.cli.flags import FLAGS, OWN, Effect, Flag
from charonia.core.errors import InvalidArgumentError
from charonia.options import ServerOptions

NO_ENVIRONMENT: Mapping[str, str] = {}


@dataclass(slots=True)
class ParsedFlags:
    """Options, and what the user should hear about flags that were accepted without an effect or are deprecated."""

    options: ServerOptions
    remarks: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Given:
    """What the command line says about one option: by which flags, with which values, in order."""

    flags: list[Flag] = field(default_factory=list)
    values: list[Any] = field(default_factory=list)

    def value(self) -> Any:
        """The last one counts, unless they are collected; a switch can't be taken back by a flag with a value."""
        if collect := self.flags[-1].collect:
            return collect(self.values)
        return True if any(flag.convert is None for flag in self.flags) else self.values[-1]


def parse_flags(arguments: Sequence[str], environment: Mapping[str, str] = NO_ENVIRONMENT) -> ParsedFlags:
    """Read and check a whole command line; `environment` counts where it says nothing.

    Raises:
        InvalidArgumentError: an unknown flag, a bad value, settings that contradict one another.
    """
    given: dict[str, _Given] = {}
    remarks: dict[str, None] = {}
    for flag, raw in _pairs(arguments):
        value = _value(flag, raw)
        remarks.update(dict.fromkeys(_remarks(flag)))
        if flag.option:
            one = given.setdefault(flag.option, _Given())
            one.flags.append(flag)
            one.values.append(value)
    said = {name: one.value() for name, one in given.items()}
    options = ServerOptions.of(**{**options_of_environment(environment), **said})
    options.check()
    return ParsedFlags(options, [*remarks, *idle_settings(options.backend_config)])


def _remarks(flag: Flag) -> list[str]:
    remarks = []
    if flag.effect is Effect.NO_EFFECT:
        remarks.append(f"--{flag.name} is accepted and has no effect here ({flag.help.rstrip('.')})")
    if flag.instead:
        remarks.append(f"--{flag.name} is deprecated, use {flag.instead}")
    return remarks


def _pairs(arguments: Sequence[str]) -> list[tuple[Flag, str | None]]:
    """Each flag with its text, None for those that take no value."""
    pairs: list[tuple[Flag, str | None]] = []
    rest = list(reversed(arguments))
    while rest:
        word = rest.pop()
        if word == "--" and not rest:
            break
        if not word.startswith("-") or word in ("-", "--"):
            raise InvalidArgumentError(f"unexpected argument '{word}': settings are given as --name=value")
        if not word.startswith("--"):
            raise InvalidArgumentError(f"unrecognized option '{word}': names begin with two dashes{_hint(word[1:])}")
        name, equals, text = word[2:].partition("=")
        flag = find_flag(name)
        if flag.convert is None:
            if equals:
                raise InvalidArgumentError(f"--{flag.name} takes no value, got '{text}'")
            pairs.append((flag, None))
        elif equals:
            pairs.append((flag, text))
        elif rest:
            pairs.append((flag, rest.pop()))
        else:
            raise InvalidArgumentError(f"--{flag.name} requires a value: --{flag.name}={flag.value_name}")
    return pairs


def find_flag(name: str) -> Flag:
    """The flag of that name, or the only one whose name begins so.

    Raises:
        InvalidArgumentError: none, or several; names the nearest.
    """
    if name in FLAGS:
        return FLAGS[name]
    begins = [flag for known, flag in FLAGS.items() if name and known.startswith(name)]
    begins = [flag for flag in begins if flag.name not in OWN] or begins
    if len(begins) == 1:
        return begins[0]
    if begins:
        raise InvalidArgumentError(f"--{name} is ambiguous: {', '.join('--' + flag.name for flag in begins[:6])}")
    raise InvalidArgumentError(f"unrecognized option '--{name}'{_hint(name)}")


def _hint(name: str) -> str:
    from difflib import get_close_matches  # only needed for a typing error

    wanted = name.partition("=")[0].replace("_", "-").lower()
    matches = get_close_matches(wanted, FLAGS, n=1, cutoff=0.5)
    return f"; did you mean --{matches[0]}?" if matches else ""


def _value(flag: Flag, raw: str | None) -> Any:
    if flag.convert is None or raw is None:
        return True
    try:
        return flag.convert(raw)
    except InvalidArgumentError as error:
        raise InvalidArgumentError(f"--{flag.name}: {error}") from None
